//! Requests of annotators.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use nextpair_data::Side;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::Reply;
use super::extract::{JsonBody, Key, KeyBody, LimitQuery, PathParam, QueryParams, checked, limit};
use super::pages::page_of;
use super::shown::Next;
use crate::access::{Caller, cookie, no_cookie};
use crate::app::App;
use crate::caption_hints::caption_hints;
use crate::error::Refusal;
use crate::event::{Draft, Seq, Submission};
use crate::state::{Act, ActResult, AnswerFilter, PersonView, RoundView};

/// Common reasons for a skip; any other can be typed.
const IMAGE_REASONS: [&str; 4] =
    ["The image cannot be seen", "Nothing to describe", "Not suitable", "I cannot tell what it is"];
const TEXT_REASONS: [&str; 3] = ["No image fits", "The text makes no sense", "Not suitable"];

/// Longest id of an item.
const LONGEST_ID: usize = 1024;
/// Longest caption in a draft, in characters.
const LONGEST_DRAFT: usize = 4000;
/// Most captions of a draft.
const MOST_DRAFTS: usize = 20;

#[derive(Serialize)]
pub(crate) struct Profile {
    person: PersonView,
    csrf: String,
    pool: Side,
    dataset: String,
    language: Option<&'static str>,
    captions: usize,
    annotators: usize,
    paused: bool,
    round: Option<RoundView>,
    /// Whether no round comes after this one.
    finished: bool,
    answered: usize,
    skipped: usize,
    skip_reasons: &'static [&'static str],
    uploads: bool,
    /// The version of the guidelines, if there are any, and whether I have yet to read it.
    guidelines: Option<GuidelinesView>,
}

#[derive(Serialize)]
struct GuidelinesView {
    version: u32,
    unread: bool,
}

pub(crate) async fn me(State(app): State<Arc<App>>, caller: Caller) -> Json<Profile> {
    let state = app.state();
    let own = state.round().into_iter().flat_map(|round| round.standing_by_age());
    let own = own.filter(|given| given.person == caller.person);
    let (mut answered, mut skipped) = (0, 0);
    for given in own {
        match *given.said {
            Submission::Skip(_) => skipped += 1,
            Submission::Captions(_) | Submission::Image(_) => answered += 1,
        }
    }
    Json(Profile {
        person: state.view_of(caller.person),
        csrf: caller.csrf,
        pool: app.pool,
        dataset: app.catalog.dataset().manifest().name.clone(),
        language: app.language.map(|language| language.eng_name()),
        captions: app.terms.captions,
        annotators: app.terms.annotators,
        paused: state.paused,
        round: state.round().map(|round| state.round_view(round, app.terms)),
        finished: app.source.is_finished() && state.round().is_none_or(|round| !round.is_open()),
        answered,
        skipped,
        skip_reasons: match app.pool {
            Side::Image => &IMAGE_REASONS,
            Side::Text => &TEXT_REASONS,
        },
        uploads: app.uploads.is_some(),
        guidelines: state.guidelines.current().map(|version| GuidelinesView {
            version,
            unread: state.unread_guidelines(caller.person).is_some(),
        }),
    })
}

pub(crate) async fn next(State(app): State<Arc<App>>, caller: Caller) -> Reply<Next> {
    shown(&app, app.act(caller.person, Act::Next).await?)
}

pub(super) fn shown(app: &App, done: ActResult) -> Reply<Next> {
    match done {
        ActResult::Next(next) | ActResult::Answered(_, next) => Ok(Json(app.catalog.next(*next))),
        _ => Err(Refusal::unavailable("nothing to show")),
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct RenewRequest {
    item: String,
}

pub(crate) async fn renew(
    State(app): State<Arc<App>>,
    caller: Caller,
    JsonBody(RenewRequest { item }): JsonBody<RenewRequest>,
) -> Reply<Value> {
    match app.act(caller.person, Act::Renew { item }).await? {
        ActResult::Number(until) => Ok(Json(json!({ "lease_until": until }))),
        _ => Err(Refusal::unavailable("nothing to show")),
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct DraftRequest {
    item: String,
    draft: Draft,
}

pub(crate) async fn draft(
    State(app): State<Arc<App>>,
    caller: Caller,
    JsonBody(DraftRequest { item, draft }): JsonBody<DraftRequest>,
) -> Result<StatusCode, Refusal> {
    check_draft(&draft.captions)?;
    if draft.image.as_ref().is_some_and(|image| image.len() > LONGEST_ID) {
        return Err(Refusal::invalid("no image has such a long name"));
    }
    app.act(caller.person, Act::Keep { item, draft }).await?;
    Ok(StatusCode::NO_CONTENT)
}

fn check_draft(captions: &[String]) -> Result<(), Refusal> {
    let long = captions.iter().any(|caption| caption.chars().count() > LONGEST_DRAFT);
    if long || captions.len() > MOST_DRAFTS {
        let message = format!("more than {MOST_DRAFTS} captions, or {LONGEST_DRAFT} letters");
        return Err(Refusal::invalid(message));
    }
    Ok(())
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct CheckRequest {
    item: String,
    captions: Vec<String>,
}

pub(crate) async fn check(
    State(app): State<Arc<App>>,
    _: Caller,
    JsonBody(CheckRequest { item, captions }): JsonBody<CheckRequest>,
) -> Reply<Value> {
    check_draft(&captions)?;
    let confusable: Option<Vec<String>> = {
        let state = app.state();
        let slot = state.round().and_then(|round| round.slot(&item));
        slot.map(|slot| slot.task.why.iter().filter_map(|why| why.caption.clone()).collect())
    };
    let confusable =
        confusable.ok_or_else(|| Refusal::not_found("this item is not in the round"))?;
    Ok(Json(json!({ "hints": caption_hints(&captions, &confusable, app.language) })))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct SubmitRequest {
    key: Key,
    item: String,
    said: Submission,
    #[serde(default)]
    accept: bool,
}

pub(crate) async fn submit(
    State(app): State<Arc<App>>,
    caller: Caller,
    JsonBody(SubmitRequest { key: Key(key), item, said, accept }): JsonBody<SubmitRequest>,
) -> Reply<Value> {
    let said = sayable(&app, said)?;
    match app.act(caller.person, Act::Submit { key, item, said, accept }).await? {
        ActResult::Answered(answer, next) => {
            Ok(Json(json!({ "answer": answer, "next": app.catalog.next(*next) })))
        }
        _ => Err(Refusal::unavailable("nothing to show")),
    }
}

/// Checks that an answer fits items of this pool.
fn sayable(app: &App, said: Submission) -> Result<Submission, Refusal> {
    match (&said, app.pool) {
        (Submission::Captions(_), Side::Text) => {
            return Err(Refusal::invalid("texts are paired with an image"));
        }
        (Submission::Image(_), Side::Image) => {
            return Err(Refusal::invalid("images are paired with captions"));
        }
        (Submission::Image(image), Side::Text) => {
            app.catalog.check_image(image).map_err(Refusal::invalid)?;
        }
        _ => {}
    }
    checked(said, app.terms.captions)
}

pub(crate) async fn mine(
    State(app): State<Arc<App>>,
    caller: Caller,
    QueryParams(query): QueryParams<LimitQuery>,
) -> Reply<Value> {
    let limit = limit(query.limit, 50, 200)?;
    let person = Some(caller.person);
    let which = AnswerFilter { limit, person, this_round: true, ..AnswerFilter::default() };
    let mut answers = app.state().answers(&which);
    // People who know which answers are reviewed would take care with those alone.
    answers.iter_mut().for_each(|answer| (answer.review, answer.gold) = (None, None));
    let answers: Vec<_> = answers.into_iter().map(|answer| app.catalog.answer(answer)).collect();
    Ok(Json(json!({ "answers": answers })))
}

pub(crate) async fn undo(
    State(app): State<Arc<App>>,
    caller: Caller,
    PathParam(answer): PathParam<Seq>,
    JsonBody(KeyBody { key: Key(key) }): JsonBody<KeyBody>,
) -> Reply<Next> {
    shown(&app, app.act(caller.person, Act::Undo { key, answer }).await?)
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ReviseRequest {
    key: Key,
    said: Submission,
}

pub(crate) async fn revise(
    State(app): State<Arc<App>>,
    caller: Caller,
    PathParam(answer): PathParam<Seq>,
    JsonBody(ReviseRequest { key: Key(key), said }): JsonBody<ReviseRequest>,
) -> Reply<Value> {
    let said = sayable(&app, said)?;
    match app.act(caller.person, Act::Revise { key, answer, said }).await? {
        ActResult::Number(answer) => Ok(Json(json!({ "answer": answer }))),
        _ => Err(Refusal::unavailable("nothing to show")),
    }
}

pub(crate) async fn sign_out(
    State(app): State<Arc<App>>,
    caller: Caller,
) -> Result<Response, Refusal> {
    if caller.session.is_some() {
        app.limits.sign_out(caller.person, app.now().tick)?;
    }
    let act = caller.session.map_or(Act::LetGo, |until| Act::SignOut { until });
    app.act(caller.person, act).await?;
    let cookie = no_cookie(&app);
    Ok((StatusCode::NO_CONTENT, [(header::SET_COOKIE, cookie)]).into_response())
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct JoinRequest {
    token: String,
}

/// Switches a signed-in person to the session of a link.
pub(crate) async fn join(
    State(app): State<Arc<App>>,
    caller: Caller,
    JsonBody(JoinRequest { token }): JsonBody<JoinRequest>,
) -> Result<Response, Refusal> {
    let (link, role) = app.invited(&token).ok_or_else(Refusal::sign_in)?;
    let until = caller.session.ok_or_else(|| Refusal::forbidden("there is no session"))?;
    app.act(caller.person, Act::SignOut { until }).await?;
    let cookie = [(header::SET_COOKIE, cookie(&app, link))];
    Ok((cookie, Json(json!({ "page": page_of(role) }))).into_response())
}
