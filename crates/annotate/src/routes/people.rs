//! Managing people and their links, for leads.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use serde::Deserialize;
use serde_json::{Value, json};

use super::Reply;
use super::extract::{JsonBody, PathParam};
use crate::access::Lead;
use crate::app::{App, checked_name};
use crate::error::Refusal;
use crate::event::{PersonId, Role};
use crate::state::{Act, ActResult, LinkView};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct InviteRequest {
    name: String,
    role: Role,
}

pub(crate) async fn invite(
    State(app): State<Arc<App>>,
    Lead(caller): Lead,
    JsonBody(InviteRequest { name, role }): JsonBody<InviteRequest>,
) -> Reply<Value> {
    let name = checked_name(&name).map_err(Refusal::invalid)?;
    match app.act(caller.person, Act::Invite { name, role }).await? {
        ActResult::Number(person) => {
            let view = app.state().view_of(person);
            Ok(Json(json!({ "person": view, "link": app.link(person).map(|(link, _)| link) })))
        }
        _ => Err(Refusal::unavailable("nothing to show")),
    }
}

pub(crate) async fn remove(
    State(app): State<Arc<App>>,
    Lead(caller): Lead,
    PathParam(person): PathParam<PersonId>,
) -> Result<StatusCode, Refusal> {
    app.act(caller.person, Act::Remove { person }).await?;
    Ok(StatusCode::NO_CONTENT)
}

pub(crate) async fn renew_link(
    State(app): State<Arc<App>>,
    Lead(caller): Lead,
    PathParam(person): PathParam<PersonId>,
) -> Reply<Value> {
    app.act(caller.person, Act::RenewLink { person }).await?;
    shown(&app, person)
}

/// The newest link of a person. It is shown once, to the lead who made it.
fn shown(app: &App, person: PersonId) -> Reply<Value> {
    let (link, LinkView { number, until }) =
        app.link(person).ok_or_else(|| Refusal::not_found("there is no such person"))?;
    Ok(Json(json!({ "link": link, "number": number, "until": until })))
}

pub(crate) async fn add_link(
    State(app): State<Arc<App>>,
    Lead(caller): Lead,
    PathParam(person): PathParam<PersonId>,
) -> Reply<Value> {
    app.act(caller.person, Act::AddLink { person }).await?;
    shown(&app, person)
}

pub(crate) async fn revoke_link(
    State(app): State<Arc<App>>,
    Lead(caller): Lead,
    PathParam((person, link)): PathParam<(PersonId, u32)>,
) -> Result<StatusCode, Refusal> {
    app.act(caller.person, Act::RevokeLink { person, link }).await?;
    Ok(StatusCode::NO_CONTENT)
}
