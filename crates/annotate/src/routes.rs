//! All routes, in one table.

mod annotating;
pub(crate) mod extract;
mod flags;
mod guidelines;
mod images;
mod leading;
mod pages;
mod people;
mod quality;
mod review;
mod service;
mod shown;

use std::sync::Arc;
use std::time::Instant;

use axum::extract::{DefaultBodyLimit, Request, State};
use axum::http::{HeaderName, HeaderValue, header};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use axum::routing::{delete, get, post, put};
use axum::{Json, Router};

use crate::access::{authenticate, check_host};
use crate::app::App;
use crate::error::Refusal;

/// A JSON response, or a refusal.
type Reply<T> = Result<Json<T>, Refusal>;

/// Largest request in bytes. Twenty long captions fit. Uploads have limits of their own.
const LARGEST: usize = 512 * 1024;

/// Allow scripts, styles and images of our own, and nothing from anywhere else.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob:; \
                      connect-src 'self'; form-action 'none'; base-uri 'none'; frame-ancestors 'none'";

/// Headers of every response.
const HEADERS: [(HeaderName, &str); 6] = [
    (header::CONTENT_SECURITY_POLICY, POLICY),
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (header::X_FRAME_OPTIONS, "DENY"),
    (header::REFERRER_POLICY, "no-referrer"),
    (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
    (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
];

/// The router of the whole app.
pub(crate) fn router(app: &Arc<App>) -> Router {
    let annotating = Router::new()
        .route("/api/me", get(annotating::me))
        .route("/api/next", post(annotating::next))
        .route("/api/renew", post(annotating::renew))
        .route("/api/drafts", put(annotating::draft))
        .route("/api/check", post(annotating::check))
        .route("/api/answers", get(annotating::mine).post(annotating::submit))
        .route("/api/answers/{answer}/undo", post(annotating::undo))
        .route("/api/answers/{answer}/revise", post(annotating::revise))
        .route("/api/flags", post(flags::raise))
        .route("/api/guidelines", get(guidelines::guidelines))
        .route("/api/guidelines/read", post(guidelines::read))
        .route("/api/images/{item}", get(images::image))
        .route("/api/search", get(images::search))
        .route("/api/uploads", post(images::upload))
        .route("/api/join", post(annotating::join))
        .route("/api/sign-out", post(annotating::sign_out));
    let leading = Router::new()
        .route("/api/answers/{answer}/return", post(leading::give_back))
        .route("/api/answers/{answer}/accept", post(review::accept))
        .route("/api/review", get(review::waiting))
        .route("/api/lead/quality", get(quality::quality))
        .route("/api/answers/{answer}/dismiss", post(quality::dismiss))
        .route("/api/lead/review", put(review::share))
        .route("/api/lead/overview", get(leading::overview))
        .route("/api/lead/answers", get(leading::answers))
        .route("/api/lead/queue", get(leading::queue))
        .route("/api/lead/history", get(leading::history))
        .route("/api/lead/pause", put(leading::pause))
        .route("/api/lead/price", put(leading::price))
        .route("/api/lead/close", post(leading::close))
        .route("/api/lead/flags", get(flags::list))
        .route("/api/lead/flags/{flag}/resolve", post(flags::resolve))
        .route("/api/lead/guidelines", put(guidelines::change))
        .route("/api/lead/people", post(people::invite))
        .route("/api/lead/people/{person}", delete(people::remove))
        .route("/api/lead/people/{person}/link", post(people::renew_link))
        .route("/api/lead/people/{person}/links", post(people::add_link))
        .route("/api/lead/people/{person}/links/{link}", delete(people::revoke_link))
        .route("/api/lead/export", get(leading::export))
        .route("/metrics", get(service::metrics));
    let known = annotating.merge(leading);
    let known = known.route_layer(from_fn_with_state(Arc::clone(app), authenticate));
    let open = Router::new()
        .route("/", get(pages::caption))
        .route("/lead", get(pages::lead))
        .route("/review", get(pages::review))
        .route("/join/{token}", get(pages::join))
        .route("/assets/{name}", get(pages::asset))
        .route("/health", get(service::health))
        .route("/api/openapi.json", get(service::openapi));
    known
        .merge(open)
        .fallback(|| async { Refusal::not_found("there is nothing here") })
        .method_not_allowed_fallback(|| async { Refusal::method() })
        .layer(DefaultBodyLimit::max(LARGEST))
        .layer(from_fn_with_state(Arc::clone(app), check_host))
        .layer(from_fn_with_state(Arc::clone(app), finish))
        .with_state(Arc::clone(app))
}

/// Adds the headers to every response, and counts it.
async fn finish(State(app): State<Arc<App>>, request: Request, next: Next) -> Response {
    let began = Instant::now();
    let submit = request.uri().path() == "/api/answers" && request.method() == "POST";
    let response = next.run(request).await.into_response();
    let mut response = app.in_flight.hold(response).unwrap_or_else(Refusal::into_response);
    app.metrics.responded(response.status().as_u16());
    if submit && response.status().is_success() {
        app.metrics.submitted(began.elapsed());
    }
    let headers = response.headers_mut();
    for (name, value) in HEADERS {
        headers.insert(name, HeaderValue::from_static(value));
    }
    // Caches must not keep what people wrote.
    let unsaid = headers.entry(header::CACHE_CONTROL);
    unsaid.or_insert(HeaderValue::from_static("no-store"));
    response
}
