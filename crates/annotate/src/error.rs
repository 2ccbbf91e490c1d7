//! Errors of the app as a whole, and refusals of requests.

use axum::Json;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::Serialize;

/// An error of the app as a whole.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Settings that contradict each other or make no sense.
    #[error("{0}")]
    Settings(String),
    /// The database failed.
    #[error("{database}: {what}")]
    Database {
        /// The name of the database, without its password.
        database: String,
        /// The reason.
        what: String,
    },
    /// A file of the dataset failed.
    #[error(transparent)]
    Data(#[from] nextpair_data::Error),
    /// The source cannot supply batches.
    #[error("{0}")]
    Source(String),
    /// The listener has no address.
    #[error("the listener has no address: {0}")]
    Listener(std::io::Error),
    /// A task of the app ended unexpectedly.
    #[error("{0} stopped; start again")]
    Stopped(&'static str),
}

/// The reason for refusing a request. The code is for programs, the message for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Refusal {
    pub(crate) status: StatusCode,
    pub(crate) code: &'static str,
    pub(crate) message: String,
    /// Seconds after which to try again.
    pub(crate) retry_after: Option<u64>,
}

impl Refusal {
    fn new(status: StatusCode, code: &'static str, message: impl Into<String>) -> Self {
        Refusal { status, code, message: message.into(), retry_after: None }
    }

    pub(crate) fn malformed(message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "malformed", message)
    }

    pub(crate) fn invalid(message: impl Into<String>) -> Self {
        Self::new(StatusCode::UNPROCESSABLE_ENTITY, "invalid", message)
    }

    pub(crate) fn sign_in() -> Self {
        Self::new(StatusCode::UNAUTHORIZED, "sign_in", "sign in with an invitation link")
    }

    pub(crate) fn forbidden(message: impl Into<String>) -> Self {
        Self::new(StatusCode::FORBIDDEN, "forbidden", message)
    }

    pub(crate) fn csrf() -> Self {
        let message = "the X-CSRF-Token of GET /api/me must come with this";
        Self::new(StatusCode::FORBIDDEN, "csrf", message)
    }

    pub(crate) fn not_found(message: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_FOUND, "not_found", message)
    }

    pub(crate) fn method() -> Self {
        let message = "this address does not know this method";
        Self::new(StatusCode::METHOD_NOT_ALLOWED, "method", message)
    }

    pub(crate) fn unsupported(message: impl Into<String>) -> Self {
        Self::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "unsupported", message)
    }

    pub(crate) fn too_large(message: impl Into<String>) -> Self {
        Self::new(StatusCode::PAYLOAD_TOO_LARGE, "too_large", message)
    }

    /// The body of a request does not arrive.
    pub(crate) fn slow() -> Self {
        let message = "the request came too slowly; try again";
        Self::new(StatusCode::REQUEST_TIMEOUT, "slow", message)
    }

    /// There is no room for an upload.
    pub(crate) fn full(message: impl Into<String>) -> Self {
        Self::new(StatusCode::INSUFFICIENT_STORAGE, "full", message)
    }

    pub(crate) fn too_many(seconds: u64) -> Self {
        let message = "too many requests; slow down";
        let refusal = Self::new(StatusCode::TOO_MANY_REQUESTS, "too_many", message);
        Refusal { retry_after: Some(seconds), ..refusal }
    }

    pub(crate) fn unavailable(message: impl Into<String>) -> Self {
        let refusal = Self::new(StatusCode::SERVICE_UNAVAILABLE, "unavailable", message);
        Refusal { retry_after: Some(1), ..refusal }
    }

    /// Possible at another time.
    pub(crate) fn conflict(code: &'static str, message: impl Into<String>) -> Self {
        Self::new(StatusCode::CONFLICT, code, message)
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        #[derive(Serialize)]
        struct Body {
            code: &'static str,
            message: String,
        }
        let body = Json(Body { code: self.code, message: self.message });
        let mut response = (self.status, body).into_response();
        if let Some(seconds) = self.retry_after {
            response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(seconds));
        }
        response
    }
}
