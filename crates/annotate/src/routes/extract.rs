//! Extractors: checked parts of a request. Their errors are refusals like all others.

use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::extract::rejection::{JsonRejection, PathRejection, QueryRejection};
use axum::extract::{FromRequest, FromRequestParts, Path, Query, Request};
use axum::http::StatusCode;
use axum::http::request::Parts;
use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::LARGEST;
use crate::app::App;
use crate::error::Refusal;
use crate::event::Submission;
use crate::in_flight::content_length;

/// Time limit for a body.
const TIMEOUT: Duration = Duration::from_secs(30);
/// Longest caption, in characters.
const LONGEST: usize = 4000;
/// Longest reason, in characters.
const LONGEST_NOTE: usize = 1000;
/// Allowed lengths of keys.
const KEYS: std::ops::RangeInclusive<usize> = 8..=64;

/// A JSON body.
pub(crate) struct JsonBody<T>(pub(crate) T);

/// Parameters in the path.
pub(crate) struct PathParam<T>(pub(crate) T);

/// Parameters in the query string.
pub(crate) struct QueryParams<T>(pub(crate) T);

impl<T: DeserializeOwned> FromRequest<Arc<App>> for JsonBody<T> {
    type Rejection = Refusal;

    async fn from_request(request: Request, app: &Arc<App>) -> Result<Self, Refusal> {
        Ok(JsonBody(read(request, app, TIMEOUT).await?))
    }
}

/// Reads a JSON body within a time limit, if there is memory for it.
pub(crate) async fn read<T: DeserializeOwned>(
    request: Request,
    app: &Arc<App>,
    patience: Duration,
) -> Result<T, Refusal> {
    let bytes = content_length(request.headers()).and_then(|length| usize::try_from(length).ok());
    let _reserved = app.in_flight.reserve(bytes.unwrap_or(LARGEST).min(LARGEST))?;
    let read = tokio::time::timeout(patience, Json::from_request(request, app)).await;
    Ok(read.map_err(|_| Refusal::slow())??.0)
}

impl<S: Send + Sync, T: DeserializeOwned + Send> FromRequestParts<S> for PathParam<T> {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Refusal> {
        Ok(PathParam(Path::from_request_parts(parts, state).await?.0))
    }
}

impl<S: Send + Sync, T: DeserializeOwned> FromRequestParts<S> for QueryParams<T> {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Refusal> {
        Ok(QueryParams(Query::from_request_parts(parts, state).await?.0))
    }
}

impl From<JsonRejection> for Refusal {
    fn from(rejection: JsonRejection) -> Self {
        let message = rejection.body_text();
        match rejection.status() {
            StatusCode::UNSUPPORTED_MEDIA_TYPE => Refusal::unsupported(message),
            StatusCode::PAYLOAD_TOO_LARGE => Refusal::too_large(message),
            StatusCode::UNPROCESSABLE_ENTITY => Refusal::invalid(message),
            _ => Refusal::malformed(message),
        }
    }
}

impl From<PathRejection> for Refusal {
    fn from(rejection: PathRejection) -> Self {
        Refusal::malformed(rejection.body_text())
    }
}

impl From<QueryRejection> for Refusal {
    fn from(rejection: QueryRejection) -> Self {
        Refusal::malformed(rejection.body_text())
    }
}

/// The idempotency key of an act.
#[derive(Deserialize)]
#[serde(try_from = "String")]
pub(crate) struct Key(pub(crate) String);

impl TryFrom<String> for Key {
    type Error = String;

    fn try_from(key: String) -> Result<Self, String> {
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
        if !KEYS.contains(&key.len()) || !key.bytes().all(plain) {
            return Err("a key has 8 to 64 letters, digits, - and _".to_owned());
        }
        Ok(Key(key))
    }
}

/// Trims an answer and checks that an item can have it.
pub(crate) fn checked(said: Submission, captions: usize) -> Result<Submission, Refusal> {
    match said {
        Submission::Captions(given) => {
            // A person may think of fewer captions than are wanted.
            if given.is_empty() || given.len() > captions {
                let message = format!("{} captions; {captions} are wanted", given.len());
                return Err(Refusal::invalid(message));
            }
            let given = given.iter().map(|caption| text(caption, "caption", LONGEST));
            Ok(Submission::Captions(given.collect::<Result<_, _>>()?))
        }
        Submission::Image(image) => Ok(Submission::Image(image)),
        Submission::Skip(reason) => Ok(Submission::Skip(note(&reason)?)),
    }
}

/// Trims and checks a reason or a note.
pub(crate) fn note(text_of_it: &str) -> Result<String, Refusal> {
    text(text_of_it, "reason", LONGEST_NOTE)
}

fn text(given: &str, what: &str, longest: usize) -> Result<String, Refusal> {
    let text = given.trim();
    if text.is_empty() {
        return Err(Refusal::invalid(format!("the {what} is empty")));
    }
    let odd = |letter: char| letter.is_control() && !matches!(letter, '\n' | '\t');
    if text.chars().any(odd) || !text.chars().any(char::is_alphanumeric) {
        return Err(Refusal::invalid(format!("the {what} has no words, or control characters")));
    }
    if text.chars().count() > longest {
        return Err(Refusal::invalid(format!("the {what} has more than {longest} letters")));
    }
    Ok(text.to_owned())
}

/// A body of an idempotency key alone.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct KeyBody {
    pub(super) key: Key,
}

/// A query for the first results.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct LimitQuery {
    pub(super) limit: Option<usize>,
}

/// Checks a requested number of results.
pub(crate) fn limit(asked: Option<usize>, usual: usize, most: usize) -> Result<usize, Refusal> {
    match asked.unwrap_or(usual) {
        limit if (1..=most).contains(&limit) => Ok(limit),
        limit => Err(Refusal::malformed(format!("limit {limit}; 1 to {most} are possible"))),
    }
}
