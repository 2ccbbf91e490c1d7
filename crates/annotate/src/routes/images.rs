//! Showing, searching and uploading images.

use std::sync::Arc;

use axum::Json;
use axum::extract::{Request, State};
use axum::http::header;
use axum::response::{IntoResponse, Response};
use serde::Deserialize;
use serde_json::{Value, json};

use super::Reply;
use super::extract::{PathParam, QueryParams, limit};
use crate::access::Caller;
use crate::app::App;
use crate::catalog::Catalog;
use crate::error::Refusal;
use crate::event::PersonId;
use crate::in_flight::content_length;
use crate::state::Act;
use crate::stream::stream;
use crate::uploads::{LARGEST, ReceivedImage, Reservation, StoredImage};

pub(crate) async fn image(
    State(app): State<Arc<App>>,
    _: Caller,
    PathParam(item): PathParam<String>,
) -> Result<Response, Refusal> {
    let unreadable = || Refusal::unavailable("the image cannot be read");
    let open = move || {
        let (file, kind) = app.catalog.open(&item)?;
        Ok::<_, Refusal>((stream(file).map_err(|_| unreadable())?, kind))
    };
    let opened = tokio::task::spawn_blocking(open).await;
    let (response, kind) = opened.map_err(|_| unreadable())??;
    // An item's image never changes. The cache is private: it holds only what the person saw.
    let headers = [(header::CONTENT_TYPE, kind), (header::CACHE_CONTROL, "private, max-age=3600")];
    Ok((headers, response).into_response())
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Query {
    q: Option<String>,
    limit: Option<usize>,
}

pub(crate) async fn search(
    State(app): State<Arc<App>>,
    _: Caller,
    QueryParams(Query { q, limit: asked }): QueryParams<Query>,
) -> Reply<Value> {
    let (query, limit) = (q.unwrap_or_default(), limit(asked, 24, 100)?);
    if query.chars().count() > 1000 {
        return Err(Refusal::malformed("more than 1000 letters to look for"));
    }
    let found = app.search.as_ref().map(|search| search.find(&query, limit)).unwrap_or_default();
    let shown = found.into_iter().filter_map(|id| {
        let captions = app.catalog.item(id).map(|item| item.captions).unwrap_or_default();
        let (image, caption) = (app.catalog.url(id)?, captions.first());
        Some(json!({ "item": id, "image": image, "caption": caption }))
    });
    Ok(Json(json!({ "images": shown.collect::<Vec<_>>() })))
}

pub(crate) async fn upload(
    State(app): State<Arc<App>>,
    caller: Caller,
    request: Request,
) -> Reply<Value> {
    let uploads = app.uploads.as_ref();
    let uploads = uploads.ok_or_else(|| Refusal::forbidden("images are not taken here"))?;
    app.limits.upload(caller.person, app.now().tick)?;
    let bytes = content_length(request.headers()).unwrap_or(LARGEST);
    if bytes > LARGEST {
        return Err(Refusal::too_large(format!(
            "images of {} MiB at most are taken",
            LARGEST >> 20
        )));
    }
    let brought = app.state().brought(caller.person);
    let coming = uploads.begin(caller.person, bytes, brought)?;
    let received = uploads.receive(request.into_body(), &coming).await?;
    // Store and record a received image even if the client does not wait.
    let kept = tokio::spawn(keep(Arc::clone(&app), caller.person, received, coming)).await;
    kept.map_err(|_| Refusal::unavailable("the image could not be kept; try again"))?
}

async fn keep(
    app: Arc<App>,
    person: PersonId,
    received: ReceivedImage,
    // Counts until the image is stored.
    _coming: Reservation,
) -> Reply<Value> {
    // A small file can be a large picture: decode one at a time.
    let turn = app.decoding.lock().await;
    let of_app = Arc::clone(&app);
    let keep = move || of_app.uploads.as_ref().map(|uploads| uploads.keep(received));
    let kept = tokio::task::spawn_blocking(keep).await.ok().flatten();
    let StoredImage { name, bytes, is_new } =
        kept.ok_or_else(|| Refusal::unsupported("this is not an image we can read"))??;
    drop(turn);
    let item = Catalog::upload(&name);
    // Record an existing image as well: its first upload may have failed before it was recorded.
    if let Err(refusal) = app.act(person, Act::Upload { name, bytes }).await {
        if let Some(uploads) = app.uploads.as_ref().filter(|_| is_new) {
            uploads.not_recorded(bytes);
        }
        return Err(refusal);
    }
    Ok(Json(json!({ "item": item, "image": app.catalog.url(&item) })))
}
