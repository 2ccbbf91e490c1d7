//! Uploads of images, and their limits.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::http::{Request, header};
use hyper::body::{Body as HttpBody, Frame};
use nextpair_data::Side;
use serde_json::json;
use tempfile::TempDir;

use super::world::{Reply, World, on_sqlite};
use crate::uploads::{LARGEST, Timeouts, UploadedBytes, Uploads};
use crate::{Settings, routes};

/// A body that arrives in pieces and then fails, and counts how often it was polled.
struct FailingBody(Vec<Bytes>, Arc<AtomicUsize>);

impl HttpBody for FailingBody {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        self.1.fetch_add(1, Ordering::SeqCst);
        Poll::Ready(Some(self.0.pop().map(Frame::data).ok_or_else(|| io::Error::other("lost"))))
    }
}

async fn send(world: &World, who: &str, length: Option<u64>, body: Body) -> Reply {
    let mut request = Request::builder().method("POST").uri("/api/uploads");
    request = request.header(header::HOST, "localhost");
    request = request.header(header::AUTHORIZATION, format!("Bearer {}", world.token(who)));
    if let Some(length) = length {
        request = request.header(header::CONTENT_LENGTH, length);
    }
    world.call(request.body(body).unwrap()).await
}

async fn upload(world: &World, who: &str, bytes: &[u8]) -> Reply {
    send(world, who, Some(bytes.len() as u64), Body::from(bytes.to_vec())).await
}

/// Images of the dataset, to upload.
fn images(world: &World) -> Vec<Vec<u8>> {
    let folder = world.app.catalog.dataset().image_folder().unwrap();
    let items = world.app.catalog.dataset().items().iter();
    items.map(|item| fs::read(folder.join(item.image.unwrap())).unwrap()).collect()
}

fn names(folder: &Path) -> Vec<String> {
    let Ok(entries) = fs::read_dir(folder) else { return Vec::new() };
    entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
}

/// Runs a test with an upload folder and settings.
fn with_uploads(
    pool: Side,
    change: impl Fn(&mut Settings),
    test: impl AsyncFn(World, PathBuf),
) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    let uploads = folder.path().join("uploads");
    let change = |settings: &mut Settings| {
        settings.uploads = Some(uploads.clone());
        change(settings);
    };
    on_sqlite(pool, change, async |world| test(world, uploads.clone()).await);
    folder
}

#[test]
fn forbidden_uploads_are_refused_unread() {
    let unread = async |world: &World| {
        let asked = Arc::new(AtomicUsize::new(0));
        let body = Body::new(FailingBody(Vec::new(), Arc::clone(&asked)));
        let refused = send(world, "ann", Some(1000), body).await.refusal();
        assert_eq!(asked.load(Ordering::SeqCst), 0, "nothing is read");
        refused
    };
    with_uploads(
        Side::Image,
        |_| {},
        async |world, folder| {
            assert_eq!(unread(&world).await, (403, "forbidden".into()));
            assert!(!folder.exists());
            assert_eq!(world.get("ann", "/api/me").await.ok()["uploads"], false);
        },
    );
    on_sqlite(
        Side::Text,
        |_| {},
        async |world| {
            assert_eq!(unread(&world).await, (403, "forbidden".into()));
        },
    );
    with_uploads(
        Side::Text,
        |settings| settings.quota.per_person = 999,
        async |world, _| {
            assert_eq!(unread(&world).await, (409, "quota".into()));
        },
    );
    with_uploads(
        Side::Text,
        |settings| settings.quota.in_all = 999,
        async |world, _| {
            assert_eq!(unread(&world).await, (507, "full".into()));
        },
    );
    with_uploads(
        Side::Text,
        |settings| settings.quota.keep_free = u64::MAX,
        async |world, _| {
            assert_eq!(unread(&world).await, (507, "full".into()));
            // Answers are not refused.
            let item = world.next("ann").await.unwrap();
            let body =
                serde_json::json!({ "key": "key-skip", "item": item, "said": { "skip": "No." } });
            world.post("ann", "/api/answers", body).await.ok();
        },
    );
}

#[test]
fn uploads_have_quotas_per_person_and_in_total() {
    let few = |settings: &mut Settings| settings.quota.in_all = 1 << 20;
    with_uploads(Side::Text, few, async |mut world, folder| {
        let images = images(&world);
        let bytes = images[0].len() as u64;
        upload(&world, "ann", &images[0]).await.ok();
        upload(&world, "ann", &images[0]).await.ok();
        assert_eq!(world.app.state().brought(0).by_all, bytes, "the same is brought once");
        // Uploads count in every process, and after a restart.
        world.settings.quota.per_person = bytes + images[1].len() as u64;
        let again = world.again().await;
        upload(&again, "ann", &images[1]).await.ok();
        assert_eq!(upload(&again, "ann", &images[2]).await.refusal(), (409, "quota".into()));
        upload(&again, "ben", &images[2]).await.ok();
        world.settings.quota.per_person = u64::MAX;
        // Files that no event records count as well.
        fs::write(folder.join("0123456789abcdef.png"), &images[3]).unwrap();
        let there: u64 =
            names(&folder).iter().map(|name| folder.join(name).metadata().unwrap().len()).sum();
        world.settings.quota.in_all = there + images[4].len() as u64 - 1;
        let full = world.again().await;
        assert_eq!(upload(&full, "ben", &images[4]).await.refusal(), (507, "full".into()));
        world.settings.quota.in_all += 1;
        let room = world.again().await;
        upload(&room, "ben", &images[4]).await.ok();
        assert_eq!(names(&folder).len(), 5);
    });
}

#[test]
fn incomplete_uploads_leave_nothing() {
    with_uploads(
        Side::Text,
        |_| {},
        async |world, folder| {
            let images = images(&world);
            let piece = Bytes::from(vec![0; 1 << 20]);
            let pieces = |count: usize| {
                Body::new(FailingBody(vec![piece.clone(); count], Arc::new(AtomicUsize::new(0))))
            };
            let lost = send(&world, "ann", Some(LARGEST), pieces(3)).await;
            assert_eq!(lost.refusal(), (400, "malformed".into()));
            for length in [None, Some(LARGEST)] {
                let long = send(&world, "ann", length, pieces(33)).await;
                assert_eq!(long.refusal(), (413, "too_large".into()));
            }
            let longer = send(&world, "ann", Some(LARGEST + 1), pieces(0)).await;
            assert_eq!(longer.refusal(), (413, "too_large".into()));
            let half = upload(&world, "ann", &images[0][..images[0].len() / 2]).await;
            assert_eq!(half.refusal(), (415, "unsupported".into()));
            assert!(!half.text().contains("uploads"), "no path of the server: {}", half.text());
            assert!(names(&folder).is_empty(), "{:?}", names(&folder));
            assert_eq!(world.app.state().brought(0).by_all, 0);
            // Nothing of it counts as being received.
            upload(&world, "ann", &images[0]).await.ok();
        },
    );
}

/// A body that never arrives, or one that never ends.
struct EndlessBody(Option<Bytes>);

impl HttpBody for EndlessBody {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        match &self.0 {
            Some(bytes) => {
                context.waker().wake_by_ref();
                Poll::Ready(Some(Ok(Frame::data(bytes.clone()))))
            }
            None => Poll::Pending,
        }
    }
}

#[test]
fn slow_uploads_time_out() {
    let (long, short) = (Duration::from_secs(3600), Duration::from_millis(20));
    with_uploads(
        Side::Text,
        |_| {},
        async |world, folder| {
            let opened = Uploads::open(&folder, &world.settings, &world.app.state());
            let mut uploads = opened.unwrap();
            for (timeouts, bytes) in [
                (Timeouts { whole: long, stall: short }, None),
                (Timeouts { whole: short, stall: long }, Some(Bytes::new())),
            ] {
                uploads.timeouts = timeouts;
                let coming = uploads.begin(2, LARGEST, UploadedBytes::default()).unwrap();
                let slow = uploads.receive(Body::new(EndlessBody(bytes)), &coming).await;
                assert_eq!(slow.err().unwrap().code, "slow");
                assert!(names(&folder).is_empty(), "{:?}", names(&folder));
            }
            let request = Request::builder().header(header::CONTENT_TYPE, "application/json");
            let request = request.body(Body::new(EndlessBody(None))).unwrap();
            let slow = routes::extract::read::<serde_json::Value>(request, &world.app, short).await;
            assert_eq!(slow.err().unwrap().status, 408);
        },
    );
}

#[test]
fn what_killed_processes_left_is_removed() {
    with_uploads(
        Side::Text,
        |_| {},
        async |world, folder| {
            fs::create_dir(&folder).unwrap();
            for (name, age) in [(".nextpair-old", 7200), (".nextpair-new", 60)] {
                let file = fs::File::create(folder.join(name)).unwrap();
                let at = std::time::SystemTime::now() - std::time::Duration::from_secs(age);
                file.set_modified(at).unwrap();
            }
            world.again().await;
            assert_eq!(names(&folder), [".nextpair-new"]);
        },
    );
}

#[test]
fn copies_of_images_for_evaluation_are_no_answers() {
    let folder = tempfile::tempdir().unwrap();
    let uploads = |settings: &mut Settings| settings.uploads = Some(folder.path().to_path_buf());
    on_sqlite(Side::Text, uploads, async |world| {
        let item = world.next("ann").await.unwrap();
        for (split, status) in [("test", 422), ("dev", 422), ("train", 200)] {
            let of_split = world.app.catalog.dataset().items().in_split(Some(split))[0];
            let image = &images(&world)[of_split];
            let brought = upload(&world, "ann", image).await.ok()["item"].clone();
            let said = json!({ "image": brought });
            let body = json!({ "key": format!("key-{split}"), "item": item, "said": said });
            let reply = world.post("ann", "/api/answers", body).await;
            assert_eq!(reply.status.as_u16(), status, "{split}: {}", reply.text());
        }
    });
}
