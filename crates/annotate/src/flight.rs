//! What is on its way: requests and answers that are in memory, and how many of them somebody may
//! have.
//!
//! Answers made of files are read as they are sent (`stream.rs`) and do not count as memory.

use std::collections::HashMap;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};

use axum::body::{Body, Bytes};
use axum::http::{HeaderMap, header};
use axum::response::Response;
use hyper::body::{Body as HttpBody, Frame, SizeHint};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::event::PersonId;
use crate::refusal::Refusal;
use crate::stream::Streamed;

/// Bytes of requests and answers that may be in memory at once.
const BYTES: usize = 64 << 20;
/// They are counted in kilobytes.
const UNIT: usize = 1024;
/// Requests that somebody may have on their way at once. A browser has six connections.
const OF_PERSON: usize = 24;

/// What is on its way.
pub(crate) struct Flight {
    bytes: Arc<Semaphore>,
    people: Arc<Mutex<HashMap<PersonId, usize>>>,
}

/// Some of the memory for what is on its way; given back when it is dropped.
pub(crate) type Room = OwnedSemaphorePermit;

impl Flight {
    pub(crate) fn new() -> Self {
        Flight { bytes: Arc::new(Semaphore::new(BYTES / UNIT)), people: Arc::default() }
    }

    /// Memory for a body that is about to be read.
    pub(crate) fn room(&self, bytes: usize) -> Result<Room, Refusal> {
        let units = u32::try_from(bytes.div_ceil(UNIT)).unwrap_or(u32::MAX);
        let room = Arc::clone(&self.bytes).try_acquire_many_owned(units);
        room.map_err(|_| Refusal::unavailable("too much at once; try again"))
    }

    /// An answer with the memory that it takes until it is sent. Where there is none, it is let go.
    pub(crate) fn answer(&self, response: Response) -> Result<Response, Refusal> {
        if response.extensions().get::<Streamed>().is_some() {
            return Ok(response);
        }
        let bytes = response.body().size_hint().lower() as usize;
        let room = self.room(bytes)?;
        Ok(response.map(|body| held(body, room)))
    }

    /// Somebody asks for something; until the end of their request they have one more on its way.
    pub(crate) fn begins(&self, person: PersonId) -> Result<OnItsWay, Refusal> {
        let mut people = self.people.lock().expect("nothing panics with it in hand");
        let count = people.entry(person).or_default();
        if *count >= OF_PERSON {
            return Err(Refusal::too_many(1));
        }
        *count += 1;
        Ok(OnItsWay { people: Arc::clone(&self.people), person })
    }
}

/// A request of somebody that is not yet answered.
pub(crate) struct OnItsWay {
    people: Arc<Mutex<HashMap<PersonId, usize>>>,
    person: PersonId,
}

impl Drop for OnItsWay {
    fn drop(&mut self) {
        let mut people = self.people.lock().expect("nothing panics with it in hand");
        if let Some(count) = people.get_mut(&self.person) {
            *count -= 1;
            if *count == 0 {
                people.remove(&self.person);
            }
        }
    }
}

/// How many bytes the body of a request has, if it says so.
pub(crate) fn length(headers: &HeaderMap) -> Option<u64> {
    headers.get(header::CONTENT_LENGTH)?.to_str().ok()?.parse().ok()
}

/// A body that keeps something until it is sent or given up.
pub(crate) fn held(body: Body, guard: impl Send + Unpin + 'static) -> Body {
    Body::new(Held { body, _guard: guard })
}

struct Held<G> {
    body: Body,
    _guard: G,
}

impl<G: Unpin> HttpBody for Held<G> {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::response::IntoResponse;

    #[test]
    fn memory_is_given_back() {
        let flight = Flight::new();
        let large = || vec![0u8; BYTES / 2].into_response();
        let first = flight.answer(large()).unwrap();
        let second = flight.answer(large()).unwrap();
        assert_eq!(flight.answer(large()).unwrap_err().status, 503);
        assert_eq!(flight.room(1).unwrap_err().status, 503);
        drop(first);
        let _room = flight.room(BYTES / 2).unwrap();
        drop(second);
        flight.answer(large()).unwrap();
        assert_eq!(flight.room(usize::MAX).unwrap_err().status, 503);
    }

    #[test]
    fn people_have_so_many_requests_on_their_way() {
        let flight = Flight::new();
        let mut begun: Vec<_> = (0..OF_PERSON).map(|_| flight.begins(7).unwrap()).collect();
        assert_eq!(flight.begins(7).err().unwrap().status, 429);
        flight.begins(8).unwrap();
        begun.pop();
        begun.push(flight.begins(7).unwrap());
        drop(begun);
        assert!(flight.people.lock().unwrap().is_empty());
    }
}
