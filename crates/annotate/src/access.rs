//! Authentication and authorisation.
//!
//! Links, sessions and CSRF tokens have the same form: a few words and their signature with a key
//! from the database. Links are numbered and the number is signed as well, so each can be revoked
//! together with the sessions that it began (`state/person.rs`). Sessions are not stored, only early sign-outs are.

mod caller;
mod limit;
mod signature;

pub(crate) use caller::{
    Caller, ClientAddress, Lead, Reviewer, authenticate, check_host, cookie, no_cookie, signed_in,
};
pub(crate) use limit::Limits;
pub(crate) use signature::Signer;
