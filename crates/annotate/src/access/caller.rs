//! The caller of a request, identified by a cookie or a bearer token.

use std::convert::Infallible;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use axum::extract::{ConnectInfo, FromRequestParts, Request, State};
use axum::http::request::Parts;
use axum::http::{Extensions, HeaderMap, Method, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

use super::signature::Session;
use crate::app::App;
use crate::error::Refusal;
use crate::event::{LinkId, Millis, PersonId, Role};
use crate::in_flight::held;
use crate::state::Person;

/// The header required on every request that changes something.
const CSRF: &str = "x-csrf-token";
/// How long a browser stays signed in.
const SESSION_LENGTH: Millis = 14 * 24 * 60 * 60 * 1000;
/// The session text of an app without sign-in.
const NO_SESSION: &str = "nobody signs in here";

/// The signed-in caller of a request.
#[derive(Clone, Debug)]
pub(crate) struct Caller {
    pub(crate) person: PersonId,
    pub(crate) role: Role,
    /// The CSRF token that their page must send with every change.
    pub(crate) csrf: String,
    /// The time at which the session expires, if there is one.
    pub(crate) session: Option<Millis>,
}

/// A caller who is a lead.
pub(crate) struct Lead(pub(crate) Caller);

/// A caller who may review: a lead, or a reviewer.
pub(crate) struct Reviewer(pub(crate) Caller);

/// The IP address of a request, if known.
pub(crate) struct ClientAddress(pub(crate) Option<IpAddr>);

/// How a caller authenticated.
enum Credential {
    Bearer,
    /// A session cookie, to which the CSRF token belongs. It expires unless the app has no sign-in.
    Session {
        text: String,
        until: Option<Millis>,
    },
}

/// Admits only people that the app knows, at a limited rate.
pub(crate) async fn authenticate(
    State(app): State<Arc<App>>,
    mut request: Request,
    next: Next,
) -> Response {
    let now = app.now();
    let from = from(request.extensions());
    if let Some(link) = signed_link(&app, request.headers()) {
        app.learn_of(link).await;
    }
    let checked = identify(&app, request.headers(), now.wall).and_then(|(person, role, proof)| {
        if request.uri().path().starts_with("/api/images/") {
            app.limits.image(person, now.tick)?;
        } else {
            app.limits.request(person, now.tick)?;
        }
        let in_flight = app.in_flight.begin(person)?;
        let (csrf, session) = match &proof {
            Credential::Bearer => (String::new(), None),
            Credential::Session { text, until } => {
                let shown = request.headers().get(CSRF).and_then(|token| token.to_str().ok());
                let safe = matches!(*request.method(), Method::GET | Method::HEAD);
                if !safe && !shown.is_some_and(|shown| app.signer.is_csrf(text, shown)) {
                    return Err(Refusal::csrf());
                }
                (app.signer.csrf(text), *until)
            }
        };
        app.seen(person, now.wall);
        Ok((Caller { person, role, csrf, session }, in_flight))
    });
    match checked {
        Ok((caller, in_flight)) => {
            request.extensions_mut().insert(caller);
            next.run(request).await.map(|body| held(body, in_flight))
        }
        Err(refusal) => counted(&app, refusal, from, now.tick).into_response(),
    }
}

/// The person who requests a page and their role, if they are signed in.
pub(crate) fn signed_in(app: &App, headers: &HeaderMap) -> Option<(PersonId, Role)> {
    identify(app, headers, app.now().wall).ok().map(|(person, role, _)| (person, role))
}

/// Counts failures to sign in, to prevent guessing.
fn counted(app: &App, refusal: Refusal, from: Option<IpAddr>, now: Millis) -> Refusal {
    match (refusal.status == 401, from) {
        (true, Some(from)) => app.limits.failure(from, now).err().unwrap_or(refusal),
        _ => refusal,
    }
}

/// The link that a request carries, or that began its session, if we signed it.
fn signed_link(app: &App, headers: &HeaderMap) -> Option<LinkId> {
    match bearer(app, headers) {
        Some(link) => link,
        None => Some(app.signer.of_session(session_of(app, headers)?)?.link),
    }
}

/// The bearer token of a request: `None` without one, `Some(None)` if it is not one of ours.
fn bearer(app: &App, headers: &HeaderMap) -> Option<Option<LinkId>> {
    headers.get(header::AUTHORIZATION).map(|value| {
        let (scheme, token) = value.to_str().ok()?.split_once(' ')?;
        app.signer.of_token(token.trim()).filter(|_| scheme.eq_ignore_ascii_case("bearer"))
    })
}

/// Identifies the caller by a token or a cookie.
fn identify(
    app: &App,
    headers: &HeaderMap,
    now: Millis,
) -> Result<(PersonId, Role, Credential), Refusal> {
    let state = app.state();
    let known = match bearer(app, headers) {
        Some(link) => {
            let LinkId { person, number } = link.ok_or_else(Refusal::sign_in)?;
            let person = state.person(person).filter(|person| person.lets_in(number, now));
            person.zip(Some(Credential::Bearer))
        }
        None if !app.sign_in => {
            let leads = |person: &&Person| person.role == Role::Lead && !person.removed;
            let proof = Credential::Session { text: NO_SESSION.to_owned(), until: None };
            state.people.values().find(leads).zip(Some(proof))
        }
        None => {
            let text = session_of(app, headers).ok_or_else(Refusal::sign_in)?;
            let session = app.signer.of_session(text).ok_or_else(Refusal::sign_in)?;
            let Session { link: LinkId { person, number }, until } = session;
            let person = state.person(person).filter(|person| person.stays_in(number, until, now));
            person.zip(Some(Credential::Session { text: text.to_owned(), until: Some(until) }))
        }
    };
    let known = known.map(|(person, proof)| (person.id, person.role, proof));
    known.ok_or_else(Refusal::sign_in)
}

/// The session in the cookies, if any.
fn session_of<'a>(app: &App, headers: &'a HeaderMap) -> Option<&'a str> {
    let cookie = app.signer.cookie();
    let cookies = headers.get_all(header::COOKIE).iter().filter_map(|value| value.to_str().ok());
    let mut pairs =
        cookies.flat_map(|value| value.split(';')).filter_map(|pair| pair.split_once('='));
    pairs.find(|(name, _)| name.trim() == cookie).map(|(_, value)| value.trim())
}

/// The cookie that signs a person in.
pub(crate) fn cookie(app: &App, link: LinkId) -> String {
    let until = app.now().wall + SESSION_LENGTH;
    let session = app.signer.session(Session { link, until });
    set_cookie(app, &session, SESSION_LENGTH / 1000)
}

/// The cookie that signs a person out.
pub(crate) fn no_cookie(app: &App) -> String {
    set_cookie(app, "", 0)
}

fn set_cookie(app: &App, value: &str, seconds: Millis) -> String {
    let secure = if app.is_https() { "; Secure" } else { "" };
    // Lax: a link in an email comes from another site, and must lead to a page that knows its
    // reader.
    let name = app.signer.cookie();
    format!("{name}={value}; Path=/; Max-Age={seconds}; HttpOnly; SameSite=Lax{secure}")
}

/// Refuses foreign host names (DNS rebinding): another site may give this machine a name of its own
/// and then pass for us. On loopback, only loopback names are accepted.
pub(crate) async fn check_host(
    State(app): State<Arc<App>>,
    request: Request,
    next: Next,
) -> Response {
    let host = request.headers().get(header::HOST).and_then(|host| host.to_str().ok());
    if !app.answers_to(host.unwrap_or_default()) {
        return Refusal::forbidden("this service does not answer to this name").into_response();
    }
    next.run(request).await
}

impl<S: Sync> FromRequestParts<S> for Caller {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Refusal> {
        parts.extensions.get::<Caller>().cloned().ok_or_else(Refusal::sign_in)
    }
}

impl<S: Sync> FromRequestParts<S> for Lead {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Refusal> {
        let caller = Caller::from_request_parts(parts, state).await?;
        match caller.role {
            Role::Lead => Ok(Lead(caller)),
            Role::Annotator | Role::Reviewer => Err(Refusal::forbidden("this is for leads")),
        }
    }
}

impl<S: Sync> FromRequestParts<S> for Reviewer {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Refusal> {
        let caller = Caller::from_request_parts(parts, state).await?;
        match caller.role {
            Role::Lead | Role::Reviewer => Ok(Reviewer(caller)),
            Role::Annotator => Err(Refusal::forbidden("this is for reviewers")),
        }
    }
}

impl<S: Sync> FromRequestParts<S> for ClientAddress {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Infallible> {
        Ok(ClientAddress(from(&parts.extensions)))
    }
}

fn from(extensions: &Extensions) -> Option<IpAddr> {
    extensions.get::<ConnectInfo<SocketAddr>>().map(|from| from.0.ip())
}
