//! Who somebody is, and whether they may.
//!
//! A link, a session and a CSRF token are the same thing: a few words and their signature with a key
//! that lives in the database. Nothing is stored per session; whoever gets a new link or is removed
//! is out, because links are counted and the count is signed as well.

mod caller;
mod limit;
mod signature;

pub(crate) use caller::{
    Caller, From, Lead, authenticate, check_host, cookie, no_cookie, signed_in,
};
pub(crate) use limit::Limits;
pub(crate) use signature::Signer;
