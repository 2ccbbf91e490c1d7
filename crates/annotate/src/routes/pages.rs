//! The pages with their scripts and styles, all embedded in the program.

use std::sync::Arc;

use axum::extract::{Path, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{Html, IntoResponse, Redirect, Response};

use crate::access::{ClientAddress, cookie, signed_in};
use crate::app::App;
use crate::error::Refusal;
use crate::event::Role;

const SIGN_IN: &str = include_str!("../pages/sign-in.html");
const CAPTION: &str = include_str!("../pages/caption.html");
const LEAD: &str = include_str!("../pages/lead.html");
const REVIEW: &str = include_str!("../pages/review.html");
const JOIN: &str = include_str!("../pages/join.html");

const SCRIPT: &str = "text/javascript; charset=utf-8";
const STYLE: &str = "text/css; charset=utf-8";
const PICTURE: &str = "image/svg+xml";

macro_rules! asset {
    ($name:literal, $kind:ident) => {
        ($name, $kind, include_str!(concat!("../pages/", $name)))
    };
}

/// Names, media types and contents.
const ASSETS: &[(&str, &str, &str)] = &[
    asset!("api.js", SCRIPT),
    asset!("app.css", STYLE),
    asset!("around.js", SCRIPT),
    asset!("boxes.js", SCRIPT),
    asset!("caption.css", STYLE),
    asset!("caption.js", SCRIPT),
    asset!("dom.js", SCRIPT),
    asset!("drafts.js", SCRIPT),
    asset!("flag.js", SCRIPT),
    asset!("guidelines.js", SCRIPT),
    asset!("hints.js", SCRIPT),
    asset!("icon.svg", PICTURE),
    asset!("join.js", SCRIPT),
    asset!("lead-answers.js", SCRIPT),
    asset!("lead-actions.js", SCRIPT),
    asset!("lead-flags.js", SCRIPT),
    asset!("lead-guidelines.js", SCRIPT),
    asset!("lead-image.js", SCRIPT),
    asset!("lead-overview.js", SCRIPT),
    asset!("lead-people.js", SCRIPT),
    asset!("lead-quality.js", SCRIPT),
    asset!("lead-queue.js", SCRIPT),
    asset!("lead.css", STYLE),
    asset!("lead.js", SCRIPT),
    asset!("markdown.js", SCRIPT),
    asset!("outbox.js", SCRIPT),
    asset!("picker.css", STYLE),
    asset!("picker.js", SCRIPT),
    asset!("review.js", SCRIPT),
    asset!("skip.js", SCRIPT),
    asset!("storage.js", SCRIPT),
    asset!("why.js", SCRIPT),
    asset!("zoom.js", SCRIPT),
];

/// The page of annotators.
pub(crate) async fn caption(State(app): State<Arc<App>>, headers: HeaderMap) -> Response {
    match signed_in(&app, &headers) {
        Some(_) => Html(CAPTION).into_response(),
        None => sign_in(),
    }
}

/// The page of leads. Annotators are redirected to their own.
pub(crate) async fn lead(State(app): State<Arc<App>>, headers: HeaderMap) -> Response {
    match signed_in(&app, &headers) {
        Some((_, Role::Lead)) => Html(LEAD).into_response(),
        Some((_, role)) => Redirect::to(page_of(role)).into_response(),
        None => sign_in(),
    }
}

/// The page of reviewers and leads. Annotators are redirected to their own.
pub(crate) async fn review(State(app): State<Arc<App>>, headers: HeaderMap) -> Response {
    match signed_in(&app, &headers) {
        Some((_, Role::Lead | Role::Reviewer)) => Html(REVIEW).into_response(),
        Some((_, role)) => Redirect::to(page_of(role)).into_response(),
        None => sign_in(),
    }
}

fn sign_in() -> Response {
    (StatusCode::UNAUTHORIZED, Html(SIGN_IN)).into_response()
}

/// Opens a link, which signs a person in. Another site may lead here, and must not switch a
/// signed-in person to another account, which would then get their answers: the page asks first.
pub(crate) async fn join(
    State(app): State<Arc<App>>,
    ClientAddress(from): ClientAddress,
    headers: HeaderMap,
    Path(token): Path<String>,
) -> Response {
    if let Some(link) = app.signer.of_token(&token) {
        app.learn_of(link).await;
    }
    let Some((link, role)) = app.invited(&token) else {
        return match from.map(|from| app.limits.failure(from, app.now().tick)) {
            Some(Err(refusal)) => refusal.into_response(),
            _ => sign_in(),
        };
    };
    if let Err(refusal) = app.limits.request(link.person, app.now().tick) {
        return refusal.into_response();
    }
    match (is_from_here(&headers), signed_in(&app, &headers)) {
        (false, _) if !is_page(&headers) => {
            Refusal::forbidden("links are opened, not put into pages").into_response()
        }
        (false, Some((signed_in, _))) if signed_in != link.person && app.sign_in => {
            Html(JOIN).into_response()
        }
        (false, Some(_)) => Redirect::to(page_of(role)).into_response(),
        _ => {
            let cookie = cookie(&app, link);
            ([(header::SET_COOKIE, cookie)], Redirect::to(page_of(role))).into_response()
        }
    }
}

/// The start page of a role.
pub(crate) fn page_of(role: Role) -> &'static str {
    match role {
        Role::Lead => "/lead",
        Role::Reviewer => "/review",
        Role::Annotator => "/",
    }
}

/// Returns whether the browser says that the person typed the address or followed a link of ours.
fn is_from_here(headers: &HeaderMap) -> bool {
    let site = headers.get("sec-fetch-site").map(|site| site.as_bytes());
    matches!(site, Some(b"none" | b"same-origin"))
}

/// Returns whether the response becomes a page, and not a part of one.
fn is_page(headers: &HeaderMap) -> bool {
    let becomes = headers.get("sec-fetch-dest").map(|becomes| becomes.as_bytes());
    matches!(becomes, None | Some(b"document"))
}

/// A script, style or picture of a page.
pub(crate) async fn asset(
    Path(name): Path<String>,
    headers: HeaderMap,
) -> Result<Response, Refusal> {
    let found = ASSETS.iter().find(|(known, ..)| *known == name);
    let (_, kind, text) = found.ok_or_else(|| Refusal::not_found("there is nothing here"))?;
    // Browsers revalidate every time, and mostly get "not modified".
    let tag = format!("\"{}\"", nextpair_data::fingerprint(text.as_bytes()));
    let caching = [(header::ETAG, tag.clone()), (header::CACHE_CONTROL, "no-cache".to_owned())];
    let known = headers.get(header::IF_NONE_MATCH).and_then(|known| known.to_str().ok());
    if known == Some(tag.as_str()) {
        return Ok((StatusCode::NOT_MODIFIED, caching).into_response());
    }
    Ok((caching, [(header::CONTENT_TYPE, *kind)], *text).into_response())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn annotators_read_plain_words() {
        let text = |name: &str| ASSETS.iter().find(|(known, ..)| *known == name).unwrap().2;
        assert!(
            text("why.js").contains("others so far at most"),
            "what a similarity is compared with"
        );
        for (page, what) in [(CAPTION, "captions and names"), (LEAD, "captions and names")] {
            assert!(page.contains(what), "what the search looks at");
        }
    }
}
