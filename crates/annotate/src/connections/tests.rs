//! Tests over real sockets, with a router of their own.

use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::extract::ConnectInfo;
use axum::routing::{MethodRouter, get};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Notify, oneshot};
use tokio::task::JoinHandle;

use super::*;

const LONG: Duration = Duration::from_secs(3600);
const SHORT: Duration = Duration::from_millis(50);
const BOUNDS: Bounds = Bounds { connections: 2, head: LONG, stall: LONG };

struct Server {
    address: SocketAddr,
    stop: oneshot::Sender<()>,
    ended: JoinHandle<()>,
}

async fn start(bounds: Bounds, router: Router) -> Server {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (stop, stopped) = oneshot::channel();
    let ended = tokio::spawn(serve(listener, router, bounds, async {
        let _ = stopped.await;
    }));
    Server { address, stop, ended }
}

fn hello() -> Router {
    Router::new().route("/", get(async |ConnectInfo(_): ConnectInfo<SocketAddr>| "hello"))
}

/// A route that signals each request and waits for a signal to answer it.
fn slowly() -> (MethodRouter, Arc<Notify>, Arc<Notify>) {
    let (begun, go_on) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let (tell, wait) = (Arc::clone(&begun), Arc::clone(&go_on));
    let route = get(async move || {
        tell.notify_one();
        wait.notified().await;
        "slowly"
    });
    (route, begun, go_on)
}

async fn connect(server: &Server, words: &str) -> TcpStream {
    let mut stream = TcpStream::connect(server.address).await.unwrap();
    stream.write_all(words.as_bytes()).await.unwrap();
    stream
}

/// Reads until the other side closes.
async fn rest(mut stream: TcpStream) -> String {
    let mut bytes = Vec::new();
    // A reset connection has ended as well.
    let _ = stream.read_to_end(&mut bytes).await;
    String::from_utf8(bytes).unwrap()
}

/// Sends a request and keeps the connection.
async fn ask(stream: &mut TcpStream) {
    stream.write_all(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n").await.unwrap();
    let mut bytes = Vec::new();
    while !bytes.ends_with(b"hello") {
        assert!(stream.read_buf(&mut bytes).await.unwrap() > 0, "{bytes:?}");
    }
}

#[tokio::test]
async fn idle_connections_make_room() {
    let server = start(BOUNDS, hello()).await;
    let silent = connect(&server, "").await;
    let slow = connect(&server, "GET / HT").await;
    for _ in 0..5 {
        let said = rest(connect(&server, "GET / HTTP/1.0\r\n\r\n").await).await;
        assert!(said.ends_with("hello"), "{said}");
    }
    // Idle connections make room as well, the longest idle first.
    let mut one = connect(&server, "").await;
    ask(&mut one).await;
    let mut two = connect(&server, "").await;
    ask(&mut two).await;
    let mut three = connect(&server, "").await;
    ask(&mut three).await;
    for gone in [silent, slow, one] {
        assert_eq!(rest(gone).await, "");
    }
    ask(&mut two).await;
}

#[tokio::test]
async fn busy_connections_are_answered() {
    let (slow, begun, go_on) = slowly();
    let server = start(Bounds { connections: 1, ..BOUNDS }, hello().route("/slow", slow)).await;
    let busy = connect(&server, "GET /slow HTTP/1.1\r\nHost: x\r\n\r\n").await;
    begun.notified().await;
    let next = connect(&server, "GET / HTTP/1.0\r\n\r\n").await;
    go_on.notify_one();
    // It is closed afterwards, although it could be kept: another client is waiting.
    assert!(rest(busy).await.ends_with("slowly"));
    assert!(rest(next).await.ends_with("hello"));
}

#[tokio::test]
async fn half_open_connections_end() {
    let server = start(Bounds { head: SHORT, ..BOUNDS }, hello()).await;
    let silent = connect(&server, "").await;
    let slow = connect(&server, "GET / HTTP/1.1\r\nHost:").await;
    for half in [silent, slow] {
        assert_eq!(rest(half).await, "");
    }
    let mut idle = connect(&server, "").await;
    ask(&mut idle).await;
    assert_eq!(rest(idle).await, "");
}

#[tokio::test]
async fn unread_responses_time_out() {
    struct NotifyOnDrop(Arc<Notify>);
    impl Drop for NotifyOnDrop {
        fn drop(&mut self) {
            self.0.notify_one();
        }
    }
    let given_up = Arc::new(Notify::new());
    let told = Arc::clone(&given_up);
    let endless = get(async move || {
        let large = tempfile::tempfile().unwrap();
        large.set_len(1 << 32).unwrap();
        crate::stream::stream(large).unwrap().map(|body: Body| held(body, NotifyOnDrop(told)))
    });
    let server = start(Bounds { stall: SHORT, ..BOUNDS }, Router::new().route("/", endless)).await;
    let _unread = connect(&server, "GET / HTTP/1.1\r\nHost: x\r\n\r\n").await;
    given_up.notified().await;
}

#[tokio::test]
async fn shutdown_closes_idle_connections_and_waits_for_busy_ones() {
    let (slow, begun, go_on) = slowly();
    let server = start(BOUNDS, hello().route("/slow", slow)).await;
    let mut idle = connect(&server, "").await;
    ask(&mut idle).await;
    let busy = connect(&server, "GET /slow HTTP/1.1\r\nHost: x\r\n\r\n").await;
    begun.notified().await;
    server.stop.send(()).unwrap();
    assert_eq!(rest(idle).await, "");
    assert!(!server.ended.is_finished());
    go_on.notify_one();
    assert!(rest(busy).await.ends_with("slowly"));
    server.ended.await.unwrap();
}

#[test]
fn connections_follow_from_the_files_that_may_be_open() {
    for (files, expected) in
        [(Some(256), 96), (Some(1024), 480), (Some(64), 16), (Some(1 << 20), 1024), (None, 480)]
    {
        assert_eq!(connections(files), expected);
    }
}
