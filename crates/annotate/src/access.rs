//! Who somebody is, and whether they may.
//!
//! A link, a session and a CSRF token are the same thing: a few words and their signature with a key
//! that lives in the database. Links are numbered and the number is signed as well, so each can be
//! revoked with the sessions that it began (`state/person.rs`). Of sessions only the end is stored:
//! who signed out, of which.

mod caller;
mod limit;
mod signature;

pub(crate) use caller::{
    Caller, From, Lead, authenticate, check_host, cookie, no_cookie, signed_in,
};
pub(crate) use limit::Limits;
pub(crate) use signature::Signer;
