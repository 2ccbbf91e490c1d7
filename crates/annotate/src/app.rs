//! Shared state of all requests.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, RwLockReadGuard};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use nextpair_data::Side;
use whatlang::Lang;

use crate::access::{Limits, Signer};
use crate::caption_hints;
use crate::catalog::Catalog;
use crate::error::{Error, Refusal};
use crate::event::{LinkId, Millis, Moment, PersonId, Role, Seq};
use crate::gold::Gold;
use crate::host_names::{answers_to, without_port};
use crate::in_flight::InFlight;
use crate::log::Log;
use crate::metrics::Metrics;
use crate::search::Search;
use crate::server::{Invitation, Project};
use crate::settings::{Settings, check_guidelines};
use crate::source::Source;
use crate::state::{
    Act, ActResult, LinkView, Quality, SHORTEST_LINK, State, Suggestions, Terms, quality,
};
use crate::store::Store;
use crate::uploads::Uploads;
use crate::writer::Writer;

/// The name of the lead that every project has.
const LEAD: &str = "lead";

/// Returns the current time.
pub(crate) type Clock = Arc<dyn Fn() -> Moment + Send + Sync>;

/// An open project.
pub(crate) struct App {
    pub(crate) writer: Writer,
    pub(crate) store: Store,
    pub(crate) signer: Signer,
    pub(crate) limits: Limits,
    pub(crate) catalog: Catalog,
    pub(crate) in_flight: InFlight,
    /// The store of uploaded images, if people may upload any.
    pub(crate) uploads: Option<Uploads>,
    /// Image search, for pools of texts.
    pub(crate) search: Option<Search>,
    /// Locked while an image is decoded: one at a time.
    pub(crate) decoding: tokio::sync::Mutex<()>,
    pub(crate) metrics: Metrics,
    pub(crate) source: Arc<dyn Source>,
    pub(crate) pool: Side,
    pub(crate) terms: Terms,
    pub(crate) grace: Option<Millis>,
    pub(crate) language: Option<Lang>,
    /// Known answers to mix into rounds to come.
    pub(crate) gold: Gold,
    /// Captions to suggest in rounds to come.
    pub(crate) suggestions: Suggestions,
    pub(crate) sign_in: bool,
    pub(crate) log: Log,
    address: SocketAddr,
    public_url: Option<String>,
    clock: Clock,
    /// The quality of the answers up to some event, cached because it is slow to compute.
    quality: tokio::sync::Mutex<Option<(Seq, Arc<Quality>)>>,
    /// Time of each person's last request. Not stored.
    seen: Mutex<HashMap<PersonId, Millis>>,
}

impl App {
    /// Opens a project at this address.
    pub(crate) async fn open(
        project: Project,
        settings: &Settings,
        address: SocketAddr,
        clock: Clock,
    ) -> Result<Arc<Self>, Error> {
        settings.check(address)?;
        let Project { dataset, pool, source } = project;
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
        if pool == Side::Text && !settings.suggestions.is_empty() {
            let what = "suggestions are captions, and texts are paired with images".to_owned();
            return Err(Error::Settings(what));
        }
        let catalog = Catalog::new(dataset, pool, settings)?;
        let search = (pool == Side::Text).then(|| Search::new(&catalog));
        let writer = Writer::start(&store, terms, Arc::clone(&clock), settings.log.clone()).await?;
        // Only texts are answered with images, so only their pools take uploads.
        let uploads = settings.uploads.as_deref().filter(|_| pool == Side::Text);
        let uploads = uploads.map(|folder| Uploads::open(folder, settings, &writer.state()));
        let app = App {
            uploads: uploads.transpose()?,
            in_flight: InFlight::new(),
            writer,
            store,
            signer,
            limits: Limits::new(),
            catalog,
            search,
            decoding: tokio::sync::Mutex::default(),
            metrics: Metrics::default(),
            source: source.into(),
            pool,
            terms,
            grace: settings.grace.map(millis),
            language: settings.language.as_deref().map(caption_hints::language).transpose()?,
            gold: Gold { known: settings.gold.clone(), share: settings.gold_share },
            suggestions: Arc::new(settings.suggestions.clone()),
            sign_in: settings.sign_in,
            log: settings.log.clone(),
            address,
            public_url: settings.public_url.clone(),
            clock,
            quality: tokio::sync::Mutex::default(),
            seen: Mutex::default(),
        };
        app.begin(settings).await?;
        Ok(Arc::new(app))
    }

    /// Invites the lead and the people in the settings if they are missing, and sets the price.
    async fn begin(&self, settings: &Settings) -> Result<(), Error> {
        let annotators = settings.invite.iter().map(|name| (name.as_str(), Role::Annotator));
        let reviewers = settings.reviewers.iter().map(|name| (name.as_str(), Role::Reviewer));
        for (name, role) in [(LEAD, Role::Lead)].into_iter().chain(reviewers).chain(annotators) {
            let name = checked_name(name).map_err(Error::Settings)?;
            let removed = self.state().named(&name).map(|person| person.removed);
            match removed {
                None => match self.writer.act(None, Act::Invite { name, role }, self.now()).await {
                    // Another process has just added this person.
                    Err(refusal) if refusal.code != "taken" => {
                        return Err(Error::Settings(refusal.message));
                    }
                    _ => {}
                },
                Some(false) => self.refresh_link(&name).await?,
                Some(true) if role != Role::Lead => self.log.line(format_args!(
                    "{name} was removed and gets no link; invite them by another name"
                )),
                Some(true) => {}
            }
        }
        if let Some(price) = settings.price {
            self.system(Act::Price { price: Some(price) }).await?;
        }
        if let Some(share) = settings.review {
            self.system(Act::ReviewShare { share }).await?;
        }
        if !settings.suggestions.is_empty() {
            self.system(Act::Suggest { suggestions: Arc::clone(&self.suggestions) }).await?;
        }
        if let Some(text) = &settings.guidelines {
            let text = check_guidelines(text).map_err(Error::Settings)?;
            self.system(Act::SetGuidelines { text, after: None }).await?;
        }
        Ok(())
    }

    /// Adds a link for a person whose links all expire soon.
    async fn refresh_link(&self, name: &str) -> Result<(), Error> {
        let later = self.now().wall + SHORTEST_LINK;
        let person = self
            .state()
            .named(name)
            .and_then(|person| person.links(later).next_back().is_none().then_some(person.id));
        if let Some(person) = person {
            self.system(Act::AddLink { person }).await?;
        }
        Ok(())
    }

    /// Performs an act of the app itself.
    pub(crate) async fn system(&self, act: Act) -> Result<ActResult, Error> {
        let done = self.writer.act(None, act, self.now()).await;
        done.map_err(|refusal| Error::Settings(refusal.message))
    }

    /// Performs an act of a person.
    pub(crate) async fn act(&self, person: PersonId, act: Act) -> Result<ActResult, Refusal> {
        self.writer.act(Some(person), act, self.now()).await
    }

    /// The quality of the answers so far. One caller computes it while others wait for that.
    pub(crate) async fn quality(&self) -> Result<Arc<Quality>, Refusal> {
        let mut known = self.quality.lock().await;
        let now = self.state().seq;
        if let Some((_, quality)) = known.as_ref().filter(|(seq, _)| *seq == now) {
            return Ok(Arc::clone(quality));
        }
        let evidence = self.state().evidence();
        let seq = evidence.seq;
        let computed = tokio::task::spawn_blocking(move || quality(&evidence)).await;
        let computed = computed.map_err(|_| Refusal::unavailable("the comparison failed"))?;
        let computed = Arc::new(computed);
        *known = Some((seq, Arc::clone(&computed)));
        Ok(computed)
    }

    /// The stored state.
    pub(crate) fn state(&self) -> RwLockReadGuard<'_, State> {
        self.writer.state()
    }

    pub(crate) fn now(&self) -> Moment {
        (self.clock)()
    }

    /// Notes a request of a person.
    pub(crate) fn seen(&self, person: PersonId, now: Millis) {
        self.seen.lock().expect("nothing panics with it in hand").insert(person, now);
    }

    pub(crate) fn last_seen(&self, person: PersonId) -> Option<Millis> {
        self.seen.lock().expect("nothing panics with it in hand").get(&person).copied()
    }

    /// The public address of the app.
    fn url(&self) -> String {
        let plain = || format!("http://{}", self.address);
        self.public_url.clone().map_or_else(plain, |url| url.trim_end_matches('/').to_owned())
    }

    /// The newest link of a person, and how long it signs them in.
    pub(crate) fn link(&self, person: PersonId) -> Option<(String, LinkView)> {
        let newest = self.state().person(person)?.links(self.now().wall).next_back()?;
        let token = self.signer.token(LinkId { person, number: newest.number });
        Some((format!("{}/join/{token}", self.url()), newest))
    }

    /// Loads a link that another process has just made. Only for links that we signed.
    pub(crate) async fn learn_of(&self, link: LinkId) {
        if !self.state().has_link(link) {
            // If this fails, the lookup of the link fails.
            let _ = self.system(Act::Look).await;
        }
    }

    /// The link of a token that signs a person in, and their role.
    pub(crate) fn invited(&self, token: &str) -> Option<(LinkId, Role)> {
        let link = self.signer.of_token(token)?;
        let (state, now) = (self.state(), self.now().wall);
        let person = state.person(link.person)?;
        person.lets_in(link.number, now).then_some((link, person.role))
    }

    /// The links of the first lead and of these people.
    pub(crate) fn invitations(&self, settings: &Settings) -> Vec<Invitation> {
        let people = settings.reviewers.iter().chain(&settings.invite);
        let names = std::iter::once(LEAD).chain(people.map(String::as_str));
        let invitation = |name: &str| {
            let person = self.state().named(name.trim()).map(|person| person.id)?;
            Some(Invitation { name: name.to_owned(), link: self.link(person)?.0 })
        };
        names.filter_map(invitation).collect()
    }

    pub(crate) fn is_https(&self) -> bool {
        self.public_url.as_ref().is_some_and(|url| url.starts_with("https://"))
    }

    /// Returns whether requests to this host are meant for us.
    pub(crate) fn answers_to(&self, host: &str) -> bool {
        let public = self.public_url.as_deref().and_then(|url| url.split("://").nth(1));
        let public = public.and_then(|rest| without_port(rest.split('/').next()?));
        let is_public = |name: &str| public.is_some_and(|public| public.eq_ignore_ascii_case(name));
        answers_to(self.address.ip(), host) || without_port(host).is_some_and(is_public)
    }
}

/// The clock of this machine. Ticks start at the wall time of the program's start.
pub(crate) fn system_clock() -> Clock {
    let wall = || {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        since.as_millis() as Millis
    };
    let (first, began) = (wall(), Instant::now());
    Arc::new(move || Moment { wall: wall(), tick: first + began.elapsed().as_millis() as Millis })
}

/// Trims a name and checks that a person can have it.
pub(crate) fn checked_name(name: &str) -> Result<String, String> {
    let name = name.trim();
    if name.is_empty() || name.chars().count() > 100 || name.chars().any(char::is_control) {
        return Err("a name has 1 to 100 letters".to_owned());
    }
    Ok(name.to_owned())
}

fn millis(duration: Duration) -> Millis {
    Millis::try_from(duration.as_millis()).unwrap_or(Millis::MAX / 2)
}
