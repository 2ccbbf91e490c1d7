//! Everything that a request can need.

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use nextpair_data::Side;
use whatlang::Lang;

use crate::Desk;
use crate::access::{Limits, Signer};
use crate::clerk::Clerk;
use crate::event::{Millis, Moment, PersonId, Role};
use crate::flight::Flight;
use crate::gallery::Gallery;
use crate::hints;
use crate::metrics::Metrics;
use crate::refusal::{Error, Refusal};
use crate::search::Search;
use crate::settings::Settings;
use crate::source::Source;
use crate::state::{Act, Done, LinkView, Terms, USEFUL};
use crate::store::Store;
use crate::uploads::Uploads;

/// The name of the lead that every desk has.
const LEAD: &str = "lead";

/// What time it is.
pub(crate) type Clock = Arc<dyn Fn() -> Moment + Send + Sync>;

/// A desk that is open.
pub(crate) struct App {
    pub(crate) clerk: Clerk,
    pub(crate) store: Store,
    pub(crate) signer: Signer,
    pub(crate) limits: Limits,
    pub(crate) gallery: Gallery,
    pub(crate) flight: Flight,
    /// Where people may bring images.
    pub(crate) uploads: Option<Uploads>,
    /// For pools of texts.
    pub(crate) search: Option<Search>,
    /// Pictures are taken apart one at a time.
    pub(crate) decoding: tokio::sync::Mutex<()>,
    pub(crate) metrics: Metrics,
    pub(crate) source: Arc<dyn Source>,
    pub(crate) pool: Side,
    pub(crate) terms: Terms,
    pub(crate) grace: Option<Millis>,
    pub(crate) language: Option<Lang>,
    pub(crate) sign_in: bool,
    address: SocketAddr,
    public_url: Option<String>,
    clock: Clock,
    /// When somebody last asked for something. Not worth storing.
    seen: Mutex<HashMap<PersonId, Millis>>,
}

impl App {
    /// Opens a desk that is reached at this address.
    pub(crate) async fn open(
        desk: Desk,
        settings: &Settings,
        address: SocketAddr,
        clock: Clock,
    ) -> Result<Arc<Self>, Error> {
        settings.check(address)?;
        let Desk { dataset, pool, source } = desk;
        let terms = Terms {
            captions: settings.captions,
            annotators: settings.annotators,
            lease: millis(settings.lease),
        };
        let store = Store::open(&settings.database).await?;
        let new_key = Signer::new_key()?;
        let signer = Signer::new(&store.meta("key", || new_key).await?)?;
        let known = store.meta("pool", || pool.to_string()).await?;
        if known != pool.to_string() {
            let what =
                format!("the database is about a pool of {known}s, and this is one of {pool}s");
            return Err(Error::Settings(what));
        }
        let gallery = Gallery::new(dataset, pool, settings)?;
        let search = (pool == Side::Text).then(|| Search::new(&gallery));
        let clerk = Clerk::start(&store, terms, Arc::clone(&clock)).await?;
        // An image answers a text; where images are captioned, nobody needs another one.
        let uploads = settings.uploads.as_deref().filter(|_| pool == Side::Text);
        let uploads = uploads.map(|folder| Uploads::open(folder, settings.quota, &clerk.state()));
        let app = App {
            uploads: uploads.transpose()?,
            flight: Flight::new(),
            clerk,
            store,
            signer,
            limits: Limits::new(),
            gallery,
            search,
            decoding: tokio::sync::Mutex::default(),
            metrics: Metrics::default(),
            source: source.into(),
            pool,
            terms,
            grace: settings.grace.map(millis),
            language: settings.language.as_deref().map(hints::language).transpose()?,
            sign_in: settings.sign_in,
            address,
            public_url: settings.public_url.clone(),
            clock,
            seen: Mutex::default(),
        };
        app.begin(settings).await?;
        Ok(Arc::new(app))
    }

    /// Sees to it that there is a lead, that those who are to be invited are, and that there is a
    /// price.
    async fn begin(&self, settings: &Settings) -> Result<(), Error> {
        let annotators = settings.invite.iter().map(|name| (name.as_str(), Role::Annotator));
        for (name, role) in [(LEAD, Role::Lead)].into_iter().chain(annotators) {
            let name = checked_name(name).map_err(Error::Settings)?;
            let known = self.clerk.state().named(&name).map(|person| person.removed);
            match known {
                None => match self.clerk.act(None, Act::Invite { name, role }, self.now()).await {
                    // Another process that begins now was faster.
                    Err(refusal) if refusal.code != "taken" => {
                        return Err(Error::Settings(refusal.message));
                    }
                    _ => {}
                },
                Some(true) if role == Role::Annotator => {
                    say!("{name} was removed and gets no link; invite them by another name");
                }
                Some(true) => {}
                Some(false) => self.refresh_link(&name).await?,
            }
        }
        match settings.price {
            Some(price) => self.system(Act::Price { price: Some(price) }).await.map(drop),
            None => Ok(()),
        }
    }

    /// Sees to it that somebody has a link that works for a while.
    async fn refresh_link(&self, name: &str) -> Result<(), Error> {
        let later = self.now().wall + USEFUL;
        let without = self
            .clerk
            .state()
            .named(name)
            .and_then(|person| person.links(later).next_back().is_none().then_some(person.id));
        match without {
            Some(person) => self.system(Act::AddLink { person }).await.map(drop),
            None => Ok(()),
        }
    }

    /// Something that the app does by itself.
    pub(crate) async fn system(&self, act: Act) -> Result<Done, Error> {
        let done = self.clerk.act(None, act, self.now()).await;
        done.map_err(|refusal| Error::Settings(refusal.message))
    }

    /// Something that somebody does.
    pub(crate) async fn act(&self, person: PersonId, act: Act) -> Result<Done, Refusal> {
        self.clerk.act(Some(person), act, self.now()).await
    }

    pub(crate) fn now(&self) -> Moment {
        (self.clock)()
    }

    /// Somebody asked for something.
    pub(crate) fn seen(&self, person: PersonId, now: Millis) {
        self.seen.lock().expect("nothing panics with it in hand").insert(person, now);
    }

    pub(crate) fn last_seen(&self, person: PersonId) -> Option<Millis> {
        self.seen.lock().expect("nothing panics with it in hand").get(&person).copied()
    }

    /// What people reach the app by.
    fn url(&self) -> String {
        let plain = || format!("http://{}", self.address);
        self.public_url.clone().map_or_else(plain, |url| url.trim_end_matches('/').to_owned())
    }

    /// What signs somebody in: the newest of their links, and how long it does.
    pub(crate) fn link(&self, person: PersonId) -> Option<(String, LinkView)> {
        let newest = self.clerk.state().person(person)?.links(self.now().wall).next_back()?;
        let token = self.signer.token(person, newest.number);
        Some((format!("{}/join/{token}", self.url()), newest))
    }

    /// Learns of somebody's link that another process made just now. Only for links that we signed.
    pub(crate) async fn hear_of(&self, (person, link): (PersonId, u32)) {
        if !self.clerk.state().has_link(person, link) {
            // Whether that worked shows when the link is looked for.
            let _ = self.system(Act::Look).await;
        }
    }

    /// Whom a token signs in, by which link.
    pub(crate) fn invited(&self, token: &str) -> Option<(PersonId, u32, Role)> {
        let (person, link) = self.signer.of_token(token)?;
        let state = self.clerk.state();
        let person = state.person(person).filter(|person| person.lets_in(link, self.now().wall))?;
        Some((person.id, link, person.role))
    }

    /// Names and links of the first lead and of those who were to be invited.
    pub(crate) fn links(&self, invited: &[String]) -> Vec<(String, String)> {
        let names = std::iter::once(LEAD).chain(invited.iter().map(String::as_str));
        let link = |name: &str| {
            let person = self.clerk.state().named(name.trim()).map(|person| person.id)?;
            Some((name.to_owned(), self.link(person)?.0))
        };
        names.filter_map(link).collect()
    }

    pub(crate) fn is_https(&self) -> bool {
        self.public_url.as_ref().is_some_and(|url| url.starts_with("https://"))
    }

    /// Whether requests to this host are meant for us.
    pub(crate) fn answers_to(&self, host: &str) -> bool {
        if !self.address.ip().is_loopback() {
            return true;
        }
        let name = without_port(host);
        let ip = name.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>();
        let public = self.public_url.as_deref().and_then(|url| url.split("://").nth(1));
        let public = public.map(|rest| without_port(rest.split('/').next().unwrap_or_default()));
        name.eq_ignore_ascii_case("localhost")
            || ip.is_ok_and(|ip| ip.is_loopback())
            || public.is_some_and(|public| public.eq_ignore_ascii_case(name))
    }
}

/// What time it is on this machine. Ticks begin where the wall clock was at the start.
pub(crate) fn system_clock() -> Clock {
    let wall = || {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        since.as_millis() as Millis
    };
    let (first, began) = (wall(), Instant::now());
    Arc::new(move || Moment { wall: wall(), tick: first + began.elapsed().as_millis() as Millis })
}

/// A name that people can have.
pub(crate) fn checked_name(name: &str) -> Result<String, String> {
    let name = name.trim();
    match name.is_empty() || name.chars().count() > 100 || name.chars().any(char::is_control) {
        true => Err("a name has 1 to 100 letters".to_owned()),
        false => Ok(name.to_owned()),
    }
}

fn millis(duration: Duration) -> Millis {
    Millis::try_from(duration.as_millis()).unwrap_or(Millis::MAX / 2)
}

fn without_port(host: &str) -> &str {
    match host.rfind(']') {
        Some(end) => &host[..=end],
        None => host.split(':').next().unwrap_or_default(),
    }
}

#[cfg(test)]
mod tests {
    use super::without_port;

    #[test]
    fn hosts_have_ports() {
        for (host, name) in
            [("localhost:80", "localhost"), ("[::1]:80", "[::1]"), ("[::1]", "[::1]"), ("a", "a")]
        {
            assert_eq!(without_port(host), name);
        }
    }
}
