//! Which unpaired item should we pay to pair next?
//!
//! You have some pairs of images and texts, many images (or texts) without the other half, and a
//! budget for people who pair. nextpair chooses, exactly and at any size, the items that would teach
//! a retrieval model most. The calls, from the smallest:
//!
//! # Select
//!
//! A [`Problem`] owns the pairs, the pool and the rule. A [`Strategy`] with its parameters answers it: here the paper's, which
//! compares; the [default](BuiltIn::default) is [`VOptimal`].
//!
//! ```
//! use nextpair::{HardNegative, Matrix, Metric, Problem, Settings, Side};
//!
//! // Two pairs, row j of both for pair j, and three images without a text.
//! let images = Matrix::from_vec(2, vec![1.0f32, 0.0, 0.0, 1.0]);
//! let texts = Matrix::from_vec(2, vec![0.9f32, 0.1, 0.2, 0.8]);
//! let pool = Matrix::from_vec(2, vec![1.0f32, 0.2, -1.0, 0.0, 0.3, 0.9]);
//! let problem = Problem::of_embeddings(images, texts, pool, Side::Image)
//!     .metric(Metric::Cosine)
//!     .settings(Settings { explain: 1, ..Settings::default() })
//!     .build()?;
//! let picks = problem.select(&HardNegative { top_k: 1, ..HardNegative::default() }, 2, &())?;
//! assert_eq!(picks.indices(), [0, 2]);
//! assert_eq!(picks.picks[1].why[0].anchor, 1, "it would be confused with the text of pair 1");
//! # Ok::<(), nextpair::engine::Error>(())
//! ```
//!
//! The last argument receives progress and may stop the work: see [`Progress`]. Any other model
//! implements [`Similarity`] and comes in by [`Problem::of_similarities`].
//!
//! # Open files
//!
//! Matrices in files are mapped, not loaded, so they may be larger than memory.
//!
//! ```
//! use nextpair::{Files, Paths, Selection, Side};
//! # use nextpair::{Matrix, core::AtomicFile, data::npy};
//! # let folder = tempfile::tempdir()?;
//! # std::env::set_current_dir(&folder)?;
//! # for (name, values) in [("images.npy", [1.0f32, 0.0, 0.0, 1.0]), ("texts.npy", [0.9, 0.1, 0.2, 0.8]), ("pool.npy", [1.0, 0.2, 0.3, 0.9])] {
//! #     let mut file = AtomicFile::create(name.as_ref())?;
//! #     npy::write_matrix(&mut file, &Matrix::from_vec(2, values.to_vec()))?;
//! #     file.commit()?;
//! # }
//!
//! let files = Files::open(Paths {
//!     pool_side: Side::Image,
//!     pool: "pool.npy".into(),
//!     paired: Some("images.npy".into()),
//!     anchors: Some("texts.npy".into()),
//!     pool_ids: None,
//!     pair_ids: None,
//! })?;
//! let selection = Selection::new(files, 1);
//! let picks = selection.select(&())?;
//! for pick in &picks.picks {
//!     assert_eq!(selection.from.pool_id(pick.index), "1");
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Bring the similarities of any model
//!
//! A cross-encoder has no embeddings. Its similarities may be in files too: a row for every item on
//! the side of the pool, a column for every pair.
//!
//! ```
//! use nextpair::{Files, HardNegative, Selection, Side, SimilarityPaths};
//! # use nextpair::{Matrix, core::AtomicFile, data::npy};
//! # let folder = tempfile::tempdir()?;
//! # std::env::set_current_dir(&folder)?;
//! # for (name, values) in [("pairs.npy", vec![0.9f32, 0.2, 0.1, 0.8]), ("pool.npy", vec![0.1, 0.1, 0.7, 0.3, 0.2, 0.1])] {
//! #     let mut file = AtomicFile::create(name.as_ref())?;
//! #     npy::write_matrix(&mut file, &Matrix::from_vec(2, values))?;
//! #     file.commit()?;
//! # }
//!
//! let files = Files::open_similarities(SimilarityPaths {
//!     pool_side: Side::Image,
//!     pool: vec!["pool.npy".into()],   // 3 images against the texts of 2 pairs
//!     pairs: vec!["pairs.npy".into()], // their own images against the same texts
//!     vectors: None,
//!     pool_ids: None,
//!     pair_ids: None,
//! })?;
//! // The default strategy looks at vectors, and there are none.
//! let strategy = HardNegative::default().into();
//! let selection = Selection { strategy, ..Selection::new(files, 1) };
//! let (picks, findings) = selection.select_inspected(&())?;
//! assert_eq!(picks.indices(), [1]);
//! assert_eq!(picks.picks[0].why[0].own, 0.9f32 as f64, "what the text's own image has");
//! assert!(findings.is_empty(), "nothing looks wrong");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! What [`Selection::select_inspected`] and [`Problem::inspect`] find is a [`Finding`]: pairs in the
//! wrong order, duplicates, hubs and so on, for you to decide about before anybody is paid.
//!
//! # Split it
//!
//! Shards of the pool can be scored anywhere, on any number of machines. Together they give the
//! same selection, to the bit.
//!
//! ```
//! use nextpair::{Files, HardNegative, Part, Paths, Selection, Shard, Side};
//! # use nextpair::{Matrix, core::AtomicFile, data::npy};
//! # let folder = tempfile::tempdir()?;
//! # std::env::set_current_dir(&folder)?;
//! # let mut draws = nextpair::core::Draws::new(1);
//! # for (name, rows) in [("images.npy", 20), ("texts.npy", 20), ("pool.npy", 50)] {
//! #     let values: Vec<f32> = (0..4 * rows).map(|_| draws.normal() as f32).collect();
//! #     let mut file = AtomicFile::create(name.as_ref())?;
//! #     npy::write_matrix(&mut file, &Matrix::from_vec(4, values))?;
//! #     file.commit()?;
//! # }
//! # let paths = Paths { pool_side: Side::Image, pool: "pool.npy".into(), paired: Some("images.npy".into()), anchors: Some("texts.npy".into()), pool_ids: None, pair_ids: None };
//!
//! // The default strategy cannot be split.
//! let strategy = HardNegative::default().into();
//! let selection = Selection { strategy, ..Selection::new(Files::open(paths)?, 10) };
//! for index in 0..3 {
//!     let shard = Shard::new(index, 3).expect("0, 1 and 2 are shards of three");
//!     let (part, _) = Part::score(&selection, shard, None, false, &())?;
//!     part.save(format!("part-{index}").as_ref())?;
//! }
//! let whole = Part::load_all(&["part-2", "part-0", "part-1"])?;
//! assert_eq!(whole.finish(&())?.picks, selection.select(&())?);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! A [`Problem`] in memory, of any similarity and any strategy, is split by [`Problem::shard`]. Its
//! [`Partial`]s move between processes as files too; see [`PartialFile`].
//!
//! ```
//! use nextpair::{HardNegative, Matrix, Partial, PartialFile, Problem, Shard, Side};
//! # let folder = tempfile::tempdir()?;
//! # std::env::set_current_dir(&folder)?;
//!
//! let images = Matrix::from_vec(2, vec![1.0f32, 0.0, 0.0, 1.0]);
//! let texts = Matrix::from_vec(2, vec![0.9f32, 0.1, 0.2, 0.8]);
//! let pool = Matrix::from_vec(2, vec![1.0f32, 0.2, -1.0, 0.0, 0.3, 0.9]);
//! let problem = Problem::of_embeddings(images, texts, pool, Side::Image).build()?;
//! let strategy = HardNegative::default();
//! for (index, path) in [(0, "first"), (1, "second")] {
//!     let shard = Shard::new(index, 2).expect("0 and 1 are shards of two");
//!     problem.shard(shard)?.score(&strategy, 2, &())?.save(path.as_ref())?;
//! }
//! let whole = Partial::load("second".as_ref())?.merge(Partial::load("first".as_ref())?)?;
//! let picks = problem.finish(&strategy, whole, 2, &())?;
//! assert_eq!(picks, problem.select(&strategy, 2, &())?);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Bring a strategy
//!
//! A [`Strategy`] sees the [`Problem`] and returns its picks; [`Problem::select`] checks the
//! rest. `examples/strategy.rs` has one that looks at similarities.
//!
//! ```
//! use nextpair::{Needs, Pick, Picks, Problem, Progress, Strategy, engine};
//!
//! /// First come, first served.
//! struct Oldest;
//!
//! impl Strategy for Oldest {
//!     fn needs(&self) -> Needs {
//!         Needs::default()
//!     }
//!
//!     fn select(
//!         &self,
//!         problem: &Problem,
//!         budget: usize,
//!         _: &dyn Progress,
//!     ) -> Result<Picks, engine::Error> {
//!         let pick = |index| Pick::new(index, 0.0);
//!         let picks = problem.items().take(budget).map(pick).collect();
//!         Ok(Picks::of(picks, problem.pool()))
//!     }
//! }
//!
//! let problem = Problem::of_pool(5).build()?;
//! assert_eq!(problem.select(&Oldest, 2, &())?.indices(), [0, 1]);
//! # Ok::<(), engine::Error>(())
//! ```
//!
//! # Put the captions back
//!
//! An [`Addition`] makes a larger dataset of what people said about the picks. Captions get features
//! from the encoder that made the others, if the dataset knows it; refusals are kept with their
//! reasons, and nobody is asked about these items again.
//!
//! ```
//! # #[cfg(feature = "encode")]
//! # {
//! use nextpair::data::{dataset::Dataset, import::import_scenes, scenes};
//! use nextpair::{Addition, Side, encode::DatasetEncoders};
//! # let folder = tempfile::tempdir()?;
//! # std::env::set_current_dir(&folder)?;
//!
//! let settings = scenes::Settings { images: 30, ..scenes::Settings::default() };
//! import_scenes(&settings, "scenes".as_ref(), &())?;
//! let dataset = Dataset::open("scenes".as_ref())?;
//! let id = &dataset.items().get(dataset.items().in_split(Some("train"))[0]).id;
//! std::fs::write("answers.csv", format!("id,caption\n{id},A walrus with a lantern .\n"))?;
//!
//! let addition = Addition::read(&dataset, &["answers.csv".into()], Side::Image, &[])?;
//! let added = addition.write("scenes-2".as_ref(), &DatasetEncoders, &())?;
//! assert_eq!(added.captions, 1);
//! assert_eq!(added.dataset.items().captions(), dataset.items().captions() + 1);
//! # }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Measure what it buys
//!
//! An experiment repeats training, selection and pairing for several strategies and seeds. This is
//! a tiny one on drawn scenes; with `annotator = "human"`, people pair.
//!
//! ```
//! # #[cfg(feature = "scenario")]
//! # {
//! use nextpair::data::{import::import_scenes, scenes};
//! use nextpair::scenario::{Experiment, Options, Scenario, read_experiment};
//! # let folder = tempfile::tempdir()?;
//! # std::env::set_current_dir(&folder)?;
//!
//! let settings = scenes::Settings { images: 60, ..scenes::Settings::default() };
//! import_scenes(&settings, "scenes".as_ref(), &())?;
//! std::fs::write("tiny.toml", r#"
//!     dataset = "scenes"
//!     strategies = ["random", "v-optimal"]
//!     rounds = 1
//!
//!     [model]
//!     architecture = "vse"
//!     dim = 8
//!     word_dim = 8
//!
//!     [training]
//!     epochs = 1
//!     batch = 8
//!     validate_last = 0
//! "#)?;
//! let (keys, file) = read_experiment("tiny.toml".as_ref())?;
//! let (model, training) = (file.model.expect("it names one"), file.training.expect("as above"));
//! let experiment = Experiment::resolve(keys, model, training)?;
//! let scenario = Scenario::create("tiny".as_ref(), experiment, &Options::default(), &())?;
//! scenario.run(1, &())?;
//! let rounds = scenario.rounds();
//! // Before anything is bought, and after a batch by each strategy.
//! assert_eq!(rounds.iter().map(|round| round.round).collect::<Vec<_>>(), [0, 1, 1]);
//! # }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Features
//!
//! Without default features, this crate is the selection alone: `engine`, `data` and `core`.
//! `models` adds retrieval models, `scenario` experiments, `report` pages about them, `encode` ONNX
//! encoders, and `annotate` the app in which people pair; it takes an experiment as an
//! `ExperimentSource`, and picks as a `PicksSource`. `watch` serves the report of an experiment while it runs. All are on by default, and so is
//! `program`, the command line of `cargo install nextpair`.

#![forbid(unsafe_code)]
#![cfg_attr(not(test), warn(clippy::disallowed_methods))]

mod error;
#[cfg(all(feature = "annotate", feature = "scenario"))]
mod experiment_source;
mod files;
mod part;
mod partial_file;
#[cfg(feature = "annotate")]
mod picks_source;
#[cfg(feature = "program")]
pub mod program;
mod tensors;
#[cfg(feature = "watch")]
pub mod watch;

pub use error::Error;
#[cfg(all(feature = "annotate", feature = "scenario"))]
pub use experiment_source::ExperimentSource;
pub use files::{Files, Paths, SimilarityPaths};
pub use nextpair_core::{Dtype, Matrix, Progress, Side};
pub use nextpair_data::dataset::{Addition, AdditionSummary, EncodedSet};
pub use nextpair_engine::{
    Alike, BagOfWords, BuiltIn, Candidates, Chance, CoreSet, CoreSetMargin, Coverage, Device,
    Distinct, Entropy, Features, Finding, FindingInputs, Guards, HardNegative, Herding, Hits,
    Hybrid, ItemFeatures, KnownSimilarities, LeastSimilar, Margin, Matching, Metric, Needs,
    Novelty, Partial, Pick, Picks, Problem, ProblemBuilder, Random, Reason, Rule, Scope, Selection,
    Settings, Shard, Sharded, Sieve, Similarity, Size, Stored, Strategy, Stratified, Typical,
    VOptimal, Weight,
};
pub use part::{Finished, Part};
pub use partial_file::PartialFile;
#[cfg(feature = "annotate")]
pub use picks_source::PicksSource;

#[cfg(feature = "annotate")]
pub use nextpair_annotate as annotate;
pub use nextpair_core as core;
pub use nextpair_data as data;
#[cfg(feature = "encode")]
pub use nextpair_encode as encode;
pub use nextpair_engine as engine;
#[cfg(feature = "models")]
pub use nextpair_kernels as kernels;
#[cfg(feature = "models")]
pub use nextpair_models as models;
#[cfg(feature = "report")]
pub use nextpair_report as report;
#[cfg(feature = "scenario")]
pub use nextpair_scenario as scenario;
