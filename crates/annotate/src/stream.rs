//! Responses that are read from a file while they are sent.

use std::fs::File;
use std::future::Future;
use std::io::{self, ErrorKind, Read, Seek, SeekFrom};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use axum::body::{Body, Bytes};
use axum::response::{IntoResponse, Response};
use hyper::body::{Body as HttpBody, Frame, SizeHint};
use tokio::task::{JoinHandle, spawn_blocking};

/// Bytes read at a time.
const CHUNK: u64 = 32 * 1024;

/// Marks responses that are not in memory.
#[derive(Clone)]
pub(crate) struct Streamed;

/// Streams a whole file from its beginning. The current length counts: bytes appended later are not
/// sent, and if the file is cut off, so is the response.
pub(crate) fn stream(mut file: File) -> io::Result<Response> {
    let left = file.metadata()?.len();
    file.seek(SeekFrom::Start(0))?;
    let mut response = Body::new(Stream { left, state: State::Ready(Some(file)) }).into_response();
    response.extensions_mut().insert(Streamed);
    Ok(response)
}

struct Stream {
    left: u64,
    state: State,
}

enum State {
    /// Between two chunks.
    Ready(Option<File>),
    Reading(JoinHandle<io::Result<(File, Vec<u8>)>>),
}

impl HttpBody for Stream {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        loop {
            let left = self.left;
            match &mut self.state {
                State::Ready(_) if left == 0 => return Poll::Ready(None),
                State::Ready(file) => {
                    let Some(file) = file.take() else { return Poll::Ready(None) };
                    self.state = State::Reading(spawn_blocking(move || read(file, left)));
                }
                State::Reading(reading) => {
                    let read = ready!(Pin::new(reading).poll(context));
                    self.state = State::Ready(None);
                    let (file, bytes) = read.map_err(io::Error::other)??;
                    self.left -= bytes.len() as u64;
                    self.state = State::Ready(Some(file));
                    return Poll::Ready(Some(Ok(Frame::data(bytes.into()))));
                }
            }
        }
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.left)
    }
}

/// Reads the next bytes of a file, of which `left` are left.
fn read(mut file: File, left: u64) -> io::Result<(File, Vec<u8>)> {
    let mut bytes = Vec::with_capacity(left.min(CHUNK) as usize);
    (&mut file).take(left.min(CHUNK)).read_to_end(&mut bytes)?;
    if bytes.is_empty() {
        return Err(ErrorKind::UnexpectedEof.into());
    }
    Ok((file, bytes))
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    fn sent(file: File, while_sending: impl FnOnce()) -> Result<Vec<u8>, axum::Error> {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            let body = stream(file).unwrap().into_body();
            while_sending();
            Ok(axum::body::to_bytes(body, usize::MAX).await?.to_vec())
        })
    }

    #[test]
    fn files_are_sent_whole() {
        for length in [0, 1, CHUNK - 1, CHUNK, CHUNK + 1, 3 * CHUNK + 7] {
            let bytes: Vec<u8> = (0..length).map(|at| (at % 251) as u8).collect();
            let mut file = tempfile::tempfile().unwrap();
            file.write_all(&bytes).unwrap();
            let again = file.try_clone().unwrap();
            assert_eq!(sent(file, move || again.set_len(length + 4).unwrap()).unwrap(), bytes);
        }
    }

    #[test]
    fn a_file_that_is_cut_off_is_no_whole_answer() {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(&[1; 3 * CHUNK as usize]).unwrap();
        let again = file.try_clone().unwrap();
        assert!(sent(file, move || again.set_len(CHUNK + 5).unwrap()).is_err());
    }
}
