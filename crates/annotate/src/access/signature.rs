//! Signed texts: tokens, sessions and CSRF tokens that only this app can make.

use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

use crate::error::Error;
use crate::event::{LinkId, Millis};

/// Size of a key in bytes.
const KEY: usize = 32;
/// Size of a signature in bytes; too large to guess.
const SIGNATURE: usize = 16;

/// Signs texts and checks signatures.
#[derive(Clone)]
pub(crate) struct Signer(Hmac<Sha256>);

/// A signed-in browser: the link that began the session, and its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Session {
    pub(crate) link: LinkId,
    pub(crate) until: Millis,
}

impl Signer {
    /// Makes a new key, in letters.
    pub(crate) fn new_key() -> Result<String, Error> {
        let mut key = [0; KEY];
        let filled = getrandom::fill(&mut key);
        filled.map_err(|e| Error::Settings(format!("the system gives no random numbers: {e}")))?;
        Ok(BASE64_URL_SAFE_NO_PAD.encode(key))
    }

    /// Makes a signer from a key in letters.
    pub(crate) fn new(key: &str) -> Result<Self, Error> {
        let bytes = BASE64_URL_SAFE_NO_PAD.decode(key).ok().filter(|bytes| bytes.len() == KEY);
        let hmac = bytes.and_then(|bytes| Hmac::new_from_slice(&bytes).ok());
        let wrong = || Error::Settings("the key in the database is damaged".to_owned());
        hmac.map(Signer).ok_or_else(wrong)
    }

    /// Signs words for one purpose.
    fn sign(&self, purpose: &str, words: &str) -> String {
        let mut hmac = self.0.clone();
        hmac.update(purpose.as_bytes());
        hmac.update(b":");
        hmac.update(words.as_bytes());
        BASE64_URL_SAFE_NO_PAD.encode(&hmac.finalize().into_bytes()[..SIGNATURE])
    }

    /// The words, if the text is words and their signature.
    fn words<'a>(&self, purpose: &str, text: &'a str) -> Option<&'a str> {
        let (words, signature) = text.rsplit_once('.')?;
        same(signature, &self.sign(purpose, words)).then_some(words)
    }

    /// The token at the end of a link, which signs a person in.
    pub(crate) fn token(&self, link: LinkId) -> String {
        let words = format!("{}.{}", link.person, link.number);
        format!("{words}.{}", self.sign("link", &words))
    }

    /// The link of a token.
    pub(crate) fn of_token(&self, token: &str) -> Option<LinkId> {
        let (person, number) = self.words("link", token)?.split_once('.')?;
        Some(LinkId { person: person.parse().ok()?, number: number.parse().ok()? })
    }

    /// The value of a session's cookie.
    pub(crate) fn session(&self, session: Session) -> String {
        let Session { link: LinkId { person, number }, until } = session;
        let words = format!("{person}.{number}.{until}");
        format!("{words}.{}", self.sign("session", &words))
    }

    /// The session of a cookie's value, whether or not it has ended.
    pub(crate) fn of_session(&self, text: &str) -> Option<Session> {
        let mut words = self.words("session", text)?.split('.');
        let mut next = || words.next();
        let (person, number, until) = (next()?, next()?, next()?);
        let link = LinkId { person: person.parse().ok()?, number: number.parse().ok()? };
        Some(Session { link, until: until.parse().ok()? })
    }

    /// The name of the cookie. Browsers do not distinguish the ports of a machine, so two apps on
    /// one machine need different names.
    pub(crate) fn cookie(&self) -> String {
        format!("nextpair-{}", &self.sign("cookie", "name")[..8])
    }

    /// The CSRF token of a session, which its pages send with every change. Other sites can make a
    /// browser send its cookie, but they cannot read this.
    pub(crate) fn csrf(&self, session: &str) -> String {
        self.sign("csrf", session)
    }

    /// Returns whether [`csrf`](Self::csrf) made this token.
    pub(crate) fn is_csrf(&self, session: &str, token: &str) -> bool {
        same(token, &self.csrf(session))
    }
}

/// Compares in constant time.
fn same(one: &str, other: &str) -> bool {
    let differences = one.bytes().zip(other.bytes()).fold(0, |found, (a, b)| found | (a ^ b));
    one.len() == other.len() && differences == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn signer() -> Signer {
        Signer::new(&Signer::new_key().unwrap()).unwrap()
    }

    #[test]
    fn what_was_signed_is_read() {
        let signer = signer();
        let link = LinkId { person: 7, number: 2 };
        let session = Session { link, until: 123 };
        assert_eq!(signer.of_session(&signer.session(session)), Some(session));
        assert_eq!(signer.of_token(&signer.token(link)), Some(link));
        assert!(signer.is_csrf("a", &signer.csrf("a")) && !signer.is_csrf("b", &signer.csrf("a")));
    }

    #[test]
    fn nothing_else_is_read() {
        let signer = signer();
        let link = LinkId { person: 7, number: 2 };
        let token = signer.token(link);
        let signature = token.rsplit_once('.').unwrap().1;
        for forged in [
            "",
            ".",
            "7.2",
            "7.2.",
            &format!("8.2.{signature}"),
            &format!("7.3.{signature}"),
            &token[..token.len() - 1],
            &format!("{token}A"),
            &format!("{token}."),
            &super::super::Signer::new(&Signer::new_key().unwrap()).unwrap().token(link),
        ] {
            assert_eq!(signer.of_token(forged), None, "{forged}");
        }
        // A link is not a session, and a session is not a link.
        let session = signer.session(Session { link, until: 1 });
        assert_eq!(signer.of_token(&session), None);
        assert_eq!(signer.of_session(&token), None);
    }

    #[test]
    fn damaged_keys_are_refused() {
        for key in ["", "abc", "*", &"A".repeat(44)] {
            assert!(Signer::new(key).is_err(), "{key}");
        }
    }
}
