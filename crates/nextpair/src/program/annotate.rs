//! `nextpair annotate EXPERIMENT` or `nextpair annotate PICKS --dataset DATASET`: the annotation
//! app.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use crate::annotate::{Log, Project, Quota, Server, Settings};
use crate::data::dataset::Dataset;
use crate::data::queue::{
    Answer, AnswerContent, PicksFile, Suggestions, read_placed_answers, read_suggestions,
};
use crate::data::{Side, ordinary, read_ids};
use crate::kernels::prepare_process;
use crate::scenario::Inbox;
use crate::{ExperimentSource, PicksSource};
use anyhow::{Context, Result, ensure};
use tokio::net::TcpListener;
use tokio::runtime::Builder;

use crate::program::inputs::sides;
use crate::program::listen::ListenArgs;
use crate::program::next::{self, Next};
use crate::program::plan::PlanArgs;
use crate::program::run::encoders;
use crate::program::signals::told_to_stop;
use crate::program::threads;

const MIB: u64 = 1 << 20;
/// The most threads that read and write files at once. Each one takes memory.
const BLOCKING: usize = 16;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// The folder of an experiment, or picks as .jsonl, .csv or .parquet, as `nextpair select` and
    /// experiments write them; a .csv needs a column id only
    #[arg(value_name = "EXPERIMENT|PICKS")]
    target: PathBuf,
    /// The dataset that picks are about; an experiment knows its own
    #[arg(long)]
    dataset: Option<PathBuf>,
    /// The side of the picks [default: image]; an experiment knows its own
    #[arg(long, value_parser = sides())]
    pool_side: Option<Side>,
    #[command(flatten)]
    plan: PlanArgs,
    /// For picks of a selection without ids: one id per pool item and line
    #[arg(long, value_name = "FILE", requires = "dataset")]
    ids: Option<PathBuf>,
    /// For picked texts: images to choose from beside those of the dataset
    #[arg(long, value_name = "FOLDER")]
    images: Option<PathBuf>,
    /// For picked texts: where images go that people bring [default: EXPERIMENT/uploads, or beside
    /// PICKS with the extension .uploads]
    #[arg(long, value_name = "FOLDER")]
    uploads: Option<PathBuf>,
    /// For picked texts: take no images
    #[arg(long, conflicts_with = "uploads")]
    no_uploads: bool,
    /// How much each of the people may bring
    #[arg(long, value_name = "MIB", default_value_t = 512)]
    person_uploads: u64,
    /// How much all of them may bring
    #[arg(long, value_name = "MIB", default_value_t = 8192)]
    all_uploads: u64,
    /// No images are taken when less than this is free on their disk
    #[arg(long, value_name = "MIB", default_value_t = 1024)]
    free_disk: u64,
    #[command(flatten)]
    listen: ListenArgs,
    /// The port to listen on; 0 takes a free one
    #[arg(long, value_name = "N", default_value_t = 7878)]
    port: u16,
    /// What people reach it by, if that is not where it listens: https://captions.example.org
    #[arg(long, value_name = "URL")]
    public_url: Option<String>,
    /// Where everything is kept: sqlite:PATH or postgres://... [default:
    /// sqlite:EXPERIMENT/annotate.db, or beside PICKS with the extension .annotate.db]
    #[arg(long, value_name = "URL")]
    database: Option<String>,
    /// Let everybody in as a lead; only on this machine
    #[arg(long)]
    no_sign_in: bool,
    /// Make a link for an annotator of this name; may be repeated
    #[arg(long, value_name = "NAME")]
    invite: Vec<String>,
    /// Make a link for a reviewer of this name; may be repeated. Reviewers answer, and accept,
    /// correct or return the answers of others
    #[arg(long, value_name = "NAME")]
    reviewer: Vec<String>,
    /// The share of answers that a reviewer or the lead is to look at, from 0 to 1 [default: what
    /// it was, at first 0]
    #[arg(long, value_name = "SHARE")]
    review: Option<f64>,
    /// Captions wanted of every annotator for an item
    #[arg(long, value_name = "N", default_value_t = 1)]
    captions: usize,
    /// Annotators wanted for an item
    #[arg(long, value_name = "N", default_value_t = 1)]
    annotators: usize,
    /// How long an item is kept for somebody who does nothing
    #[arg(long, value_name = "MINUTES", default_value_t = 10.0)]
    lease: f64,
    /// The language that captions should be in, by its English name or ISO 639 code
    #[arg(long)]
    language: Option<String>,
    /// Guidelines in Markdown, shown to everybody before they begin; the lead may change them
    #[arg(long, value_name = "FILE")]
    guidelines: Option<PathBuf>,
    /// For picked images: captions to suggest, as a captioner wrote them (.jsonl, .csv, .tsv, or
    /// COCO's .json). People accept or change them
    #[arg(long, value_name = "FILE")]
    suggestions: Option<PathBuf>,
    /// Items with known answers, as answers are written (.jsonl, .csv, .json): they are mixed into
    /// every round unrecognisably, scored, and never exported
    #[arg(long, value_name = "FILE")]
    gold: Option<PathBuf>,
    /// How many of them are mixed in for each task of a round, at most
    #[arg(long, value_name = "SHARE", default_value_t = 0.1)]
    gold_share: f64,
    /// The price of a caption, to tell what a round costs
    #[arg(long, value_name = "PRICE")]
    price: Option<f64>,
    /// How long a complete round stays open for second thoughts
    #[arg(long, value_name = "SECONDS", default_value_t = 60)]
    grace: u64,
    /// Rounds are closed by the lead only
    #[arg(long, conflicts_with = "grace")]
    manual_close: bool,
}

pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    prepare_process();
    let is_experiment = std::fs::metadata(&args.target)
        .with_context(|| args.target.display().to_string())?
        .is_dir();
    let mut settings = args.settings(is_experiment)?;
    let address = args.listen.address(args.port)?;
    let project = if is_experiment {
        args.project_of_experiment(&mut settings)?
    } else {
        args.project_of_picks()?
    };
    settings.suggestions = args.suggestions(&project)?;
    settings.gold = args.gold(&project)?;
    // Refuse bad settings before listening.
    settings.check(address)?;
    let mut runtime = Builder::new_multi_thread();
    let runtime = threads::of_server(runtime.max_blocking_threads(BLOCKING))?;
    runtime.block_on(serve(address, project, &settings))?;
    Ok(ExitCode::SUCCESS)
}

/// Serves until a signal stops the process. A second signal stops it without waiting for open
/// requests.
async fn serve(address: SocketAddr, project: Project, settings: &Settings) -> Result<()> {
    let listener = TcpListener::bind(address).await.with_context(|| address.to_string())?;
    let server = Server::open(listener, project, settings).await?;
    // Trap signals before the address is printed: from then on a caller may stop the process.
    let (once, twice) = (told_to_stop(1), told_to_stop(2));
    say!("the annotation app is at http://{}/; Ctrl-C stops it", server.address());
    for invitation in server.invitations() {
        say!("  {}: {}", invitation.name, invitation.link);
    }
    Ok(server.run(once, twice).await?)
}

impl Args {
    fn project_of_experiment(&self, settings: &mut Settings) -> Result<Project> {
        ensure!(self.dataset.is_none(), "--dataset is for picks; an experiment knows its own");
        ensure!(self.pool_side.is_none(), "--pool-side is for picks; an experiment knows its own");
        ensure!(
            self.plan.after.is_none(),
            "--after is for picks; an experiment knows its own model"
        );
        let inbox = Inbox::open(&self.target)?.with_source(encoders());
        if !inbox.folder().is_waited_at()? {
            say!(
                "nobody waits for the answers; this one goes on by itself when a round is complete:"
            );
            Next::new("run").path(&self.target).words("--resume --wait").say();
        }
        if let Some(batch) = inbox.batch()?
            && let answered @ 1.. = inbox.answered(&batch)?
        {
            say!(
                "{answered} of {} items have an answer from elsewhere; people are asked about all",
                batch.tasks.len()
            );
        }
        let (dataset, pool) = (inbox.dataset().clone(), inbox.pool());
        check_images(&dataset, pool)?;
        let places = self.new_images(&inbox, settings)?;
        let source = Box::new(ExperimentSource::new(inbox).with_images(places));
        Ok(Project { dataset, pool, source })
    }

    /// Returns the folders of images that the dataset of an experiment does not have. Takes none
    /// where they could not get the features that its models take.
    fn new_images(&self, inbox: &Inbox, settings: &mut Settings) -> Result<Vec<PathBuf>> {
        let asked_for = self.images.is_some() || self.uploads.is_some();
        if inbox.pool() == Side::Image {
            ensure!(!asked_for, "--images and --uploads are for texts; images get captions");
            return Ok(Vec::new());
        }
        let places = [&settings.uploads, &settings.images].into_iter().flatten().cloned().collect();
        match inbox.check_new_images() {
            Err(why) if asked_for => return Err(why.into()),
            Err(why) => {
                say!("people choose among the images of the dataset: {why}");
                settings.uploads = None;
            }
            Ok(()) => settings.taken_uploads = Some(inbox.folder().images()),
        }
        // Also where none are taken now: a closed round may wait to be handed over.
        Ok(places)
    }

    fn project_of_picks(&self) -> Result<Project> {
        self.plan.check()?;
        let dataset = self.dataset.as_deref();
        let dataset = dataset.context("--dataset is missing; picks are about the items of one")?;
        let dataset = Dataset::open(dataset)?;
        let pool = self.pool_side.unwrap_or(Side::Image);
        check_images(&dataset, pool)?;
        let mut picks = PicksFile::read(&self.target)?;
        if let Some(ids) = &self.ids {
            picks = picks.with_ids(&read_ids(ids)?)?;
        }
        let source = PicksSource::open(&self.target, picks, &dataset, pool)?;
        let (folder, place) = (dataset.folder().to_path_buf(), source.answers().to_path_buf());
        let after = self.plan.after.clone();
        let next = move || next::add(&folder, &place, pool, after.as_deref());
        let named = next.clone();
        let source = source.when_closed(move || named().say());
        let answers = source.answers().display();
        if source.is_closed() {
            say!("{answers} has an answer to every pick; delete it to ask again");
            next().say();
        } else {
            say!("answers go to {answers} when the round is closed");
        }
        Ok(Project { dataset, pool, source: Box::new(source) })
    }

    /// Returns the flags as settings of the app.
    fn settings(&self, is_experiment: bool) -> Result<Settings> {
        let lease = Duration::try_from_secs_f64(self.lease * 60.0);
        let lease = lease.with_context(|| format!("--lease {}: not a time", self.lease))?;
        let file = if is_experiment {
            self.target.join("annotate.db")
        } else {
            self.target.with_extension("annotate.db")
        };
        let database = self.database.clone().unwrap_or_else(|| sqlite(&file));
        Ok(Settings {
            public_url: self.public_url.clone(),
            database,
            sign_in: !self.no_sign_in,
            invite: self.invite.clone(),
            reviewers: self.reviewer.clone(),
            review: self.review,
            captions: self.captions,
            annotators: self.annotators,
            lease,
            language: self.language.clone(),
            price: self.price,
            grace: (!self.manual_close).then(|| Duration::from_secs(self.grace)),
            images: self.images.clone(),
            guidelines: self.guidelines.as_deref().map(ordinary::read_text).transpose()?,
            uploads: self.uploads(is_experiment),
            taken_uploads: None,
            quota: Quota {
                per_person: self.person_uploads.saturating_mul(MIB),
                in_all: self.all_uploads.saturating_mul(MIB),
                keep_free: self.free_disk.saturating_mul(MIB),
            },
            suggestions: BTreeMap::new(),
            gold: BTreeMap::new(),
            gold_share: self.gold_share,
            log: Log::new(|line| say!("{line}")),
        })
    }

    /// Returns the captions to suggest, by item.
    fn suggestions(&self, project: &Project) -> Result<BTreeMap<String, Vec<String>>> {
        let Some(path) = &self.suggestions else { return Ok(BTreeMap::new()) };
        ensure!(project.pool == Side::Image, "--suggestions are captions; texts get images");
        let Suggestions { of, unknown } = read_suggestions(path, &project.dataset)?;
        let place = path.display();
        say!("{place}: captions of {} items, suggested to people and marked as such", of.len());
        if unknown > 0 {
            say!("{place}: {unknown} captions are of images that the dataset does not have");
        }
        Ok(of)
    }

    /// Returns the known answers, by item.
    fn gold(&self, project: &Project) -> Result<BTreeMap<String, Vec<String>>> {
        let Some(path) = &self.gold else { return Ok(BTreeMap::new()) };
        let Project { dataset, pool, .. } = project;
        let answers = read_placed_answers(path, *pool, dataset)?;
        let known = dataset.items().find(answers.iter().map(|(_, answer)| answer.id.as_str()));
        let mut gold: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for (place, Answer { id, said, .. }) in &answers {
            let wrong = |what: String| place.error(path, what);
            if !known.contains_key(id.as_str()) {
                let place = dataset.folder().display();
                return Err(wrong(format!("{place} has no item {id:?}")).into());
            }
            match said {
                AnswerContent::Caption(said) | AnswerContent::Image(said) => {
                    gold.entry(id.clone()).or_default().push(said.clone());
                }
                AnswerContent::Skip(_) => {
                    return Err(wrong(format!("{id:?} has no known answer")).into());
                }
            }
        }
        ensure!(!gold.is_empty(), "{}: no known answers in it", path.display());
        say!("{}: {} items with known answers, for rounds that open", path.display(), gold.len());
        Ok(gold)
    }

    /// Returns the folder for uploaded images.
    fn uploads(&self, is_experiment: bool) -> Option<PathBuf> {
        let usual = || match is_experiment {
            true => self.target.join("uploads"),
            false => self.target.with_extension("uploads"),
        };
        (!self.no_uploads).then(|| self.uploads.clone().unwrap_or_else(usual))
    }
}

/// Checks that the image files exist. Annotators look at images, not at features.
fn check_images(dataset: &Dataset, pool: Side) -> Result<()> {
    let has_brought = !dataset.manifest().brought.is_empty();
    if has_brought || dataset.image_folder().is_some_and(|folder| folder.is_dir()) {
        return Ok(());
    }
    let place = dataset.folder().display();
    ensure!(pool == Side::Image, "{place}: no image files, so nobody could find one for a text");
    say!("{place}: no image files are at hand; people see the names of items only");
    Ok(())
}

fn sqlite(path: &Path) -> String {
    format!("sqlite:{}", path.display())
}
