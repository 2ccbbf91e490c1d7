//! Limits on requests and responses in flight: their memory, and their number per person.
//!
//! Responses made of files are read as they are sent (`stream.rs`) and do not count as memory.

use std::collections::HashMap;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};

use axum::body::{Body, Bytes};
use axum::http::{HeaderMap, header};
use axum::response::Response;
use hyper::body::{Body as HttpBody, Frame, SizeHint};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::error::Refusal;
use crate::event::PersonId;
use crate::stream::Streamed;

/// Most bytes of requests and responses in memory at once.
const BYTES: usize = 64 << 20;
/// Bytes per unit of the count.
const UNIT: usize = 1024;
/// Most requests of one person in flight. A browser has six connections.
const PER_PERSON: usize = 24;

/// Counts the requests and responses in flight.
pub(crate) struct InFlight {
    memory: Arc<Semaphore>,
    /// Requests by person.
    requests: Arc<Mutex<HashMap<PersonId, usize>>>,
}

/// Reserved memory, released on drop.
pub(crate) type MemoryPermit = OwnedSemaphorePermit;

impl InFlight {
    pub(crate) fn new() -> Self {
        InFlight { memory: Arc::new(Semaphore::new(BYTES / UNIT)), requests: Arc::default() }
    }

    /// Reserves memory for a body that is about to be read.
    pub(crate) fn reserve(&self, bytes: usize) -> Result<MemoryPermit, Refusal> {
        let units = u32::try_from(bytes.div_ceil(UNIT)).unwrap_or(u32::MAX);
        let reserved = Arc::clone(&self.memory).try_acquire_many_owned(units);
        reserved.map_err(|_| Refusal::unavailable("too much at once; try again"))
    }

    /// Reserves the memory of a response until it is sent. If there is none, drops the response.
    pub(crate) fn hold(&self, response: Response) -> Result<Response, Refusal> {
        if response.extensions().get::<Streamed>().is_some() {
            return Ok(response);
        }
        let bytes = response.body().size_hint().lower() as usize;
        let reserved = self.reserve(bytes)?;
        Ok(response.map(|body| held(body, reserved)))
    }

    /// Counts a request of this person until it is dropped.
    pub(crate) fn begin(&self, person: PersonId) -> Result<RequestInFlight, Refusal> {
        let mut requests = self.requests.lock().expect("nothing panics with it in hand");
        let count = requests.entry(person).or_default();
        if *count >= PER_PERSON {
            return Err(Refusal::too_many(1));
        }
        *count += 1;
        Ok(RequestInFlight { requests: Arc::clone(&self.requests), person })
    }
}

/// A request that is not yet answered.
pub(crate) struct RequestInFlight {
    requests: Arc<Mutex<HashMap<PersonId, usize>>>,
    person: PersonId,
}

impl Drop for RequestInFlight {
    fn drop(&mut self) {
        let mut requests = self.requests.lock().expect("nothing panics with it in hand");
        if let Some(count) = requests.get_mut(&self.person) {
            *count -= 1;
            if *count == 0 {
                requests.remove(&self.person);
            }
        }
    }
}

/// The length of a request's body, if its head states one.
pub(crate) fn content_length(headers: &HeaderMap) -> Option<u64> {
    headers.get(header::CONTENT_LENGTH)?.to_str().ok()?.parse().ok()
}

/// A body that keeps a guard alive until it is sent or given up.
pub(crate) fn held(body: Body, guard: impl Send + Unpin + 'static) -> Body {
    Body::new(GuardedBody { body, _guard: guard })
}

struct GuardedBody<G> {
    body: Body,
    _guard: G,
}

impl<G: Unpin> HttpBody for GuardedBody<G> {
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
    fn memory_is_released() {
        let in_flight = InFlight::new();
        let large = || vec![0u8; BYTES / 2].into_response();
        let first = in_flight.hold(large()).unwrap();
        let second = in_flight.hold(large()).unwrap();
        assert_eq!(in_flight.hold(large()).unwrap_err().status, 503);
        assert_eq!(in_flight.reserve(1).unwrap_err().status, 503);
        drop(first);
        let _reserved = in_flight.reserve(BYTES / 2).unwrap();
        drop(second);
        in_flight.hold(large()).unwrap();
        assert_eq!(in_flight.reserve(usize::MAX).unwrap_err().status, 503);
    }

    #[test]
    fn people_have_so_many_requests_in_flight() {
        let in_flight = InFlight::new();
        let mut begun: Vec<_> = (0..PER_PERSON).map(|_| in_flight.begin(7).unwrap()).collect();
        assert_eq!(in_flight.begin(7).err().unwrap().status, 429);
        in_flight.begin(8).unwrap();
        begun.pop();
        begun.push(in_flight.begin(7).unwrap());
        drop(begun);
        assert!(in_flight.requests.lock().unwrap().is_empty());
    }
}
