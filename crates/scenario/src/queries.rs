//! What people search for, for strategies that weigh what they cover by it.

use std::path::Path;

use nextpair_data::dataset::FeatureSource;
use nextpair_data::text::{Vocabulary, tokenize};
use nextpair_data::{Matrix, Progress, npy, ordinary};
use nextpair_models::{Corpus, Device, Texts};

use crate::Error;

/// More queries than this take more memory and time than they tell.
const MOST: usize = 20_000;

/// What people search for, as written in a file.
#[derive(Clone, Debug)]
pub enum Queries {
    /// Lines of text.
    Lines(Vec<String>),
    /// Vectors like the text features of a dataset.
    Vectors(Matrix),
}

/// Reads queries: vectors from `.npy`, lines of text from any other file. Blank lines do not count.
pub fn read_queries(path: &Path) -> Result<Queries, Error> {
    let (queries, count) = if path.extension().is_some_and(|ending| ending == "npy") {
        let matrix = npy::open(path)?;
        if matrix.locals() != 1 {
            return Err(Error::file(path, "several vectors for a query; one is needed"));
        }
        let rows = matrix.rows();
        (Queries::Vectors(matrix), rows)
    } else {
        let text = ordinary::read_text(path)?;
        let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
        let lines: Vec<String> = lines.map(str::to_owned).collect();
        let count = lines.len();
        (Queries::Lines(lines), count)
    };
    match count {
        0 => Err(Error::file(path, "there is no query in it")),
        1..=MOST => Ok(queries),
        _ => Err(Error::file(path, format!("{count} queries; at most {MOST} are taken"))),
    }
}

impl Queries {
    /// Returns the queries as inputs of a model of `corpus`. Texts become words of the vocabulary, or
    /// vectors of the source that made the text features. Those without a known word, or that cannot be
    /// encoded, are left out.
    pub fn texts(
        &self,
        vocabulary: Option<&Vocabulary>,
        corpus: &Corpus,
        source: Option<&dyn FeatureSource>,
        device: Device,
        progress: &dyn Progress,
    ) -> Result<Texts, Error> {
        match (vocabulary, self) {
            (Some(vocabulary), Queries::Lines(lines)) => {
                let is_known = |line: &&String| {
                    tokenize(line).iter().any(|word| {
                        word.chars().any(char::is_alphanumeric) && vocabulary.id(word).is_some()
                    })
                };
                let known = lines.iter().filter(is_known);
                let known: Vec<Vec<u32>> = known.map(|line| vocabulary.encode(line)).collect();
                if known.is_empty() {
                    let what = "not one word of them is in the vocabulary of the model";
                    return Err(Error::setting("queries", what));
                }
                Ok(Texts::words(&known)?)
            }
            (Some(_), Queries::Vectors(_)) => {
                let what = "vectors, but the model reads words; give lines of text";
                Err(Error::setting("queries", what))
            }
            (None, _) => {
                let vectors = self.vectors(corpus, source, progress)?;
                let dim = vectors.dim();
                let mut values = vec![0.0; vectors.rows() * dim];
                for (row, values) in values.chunks_exact_mut(dim).enumerate() {
                    vectors.read_f32(row, values);
                }
                Ok(Texts::vectors(values, dim, device)?)
            }
        }
    }

    /// Returns the queries as vectors like the text features of `corpus`.
    pub(crate) fn vectors(
        &self,
        corpus: &Corpus,
        source: Option<&dyn FeatureSource>,
        progress: &dyn Progress,
    ) -> Result<Matrix, Error> {
        let wrong = |what: String| Error::setting("queries", what);
        let Some((set, features)) = corpus.text_features() else {
            return Err(wrong("the model takes no text features".to_owned()));
        };
        let matrix = match self {
            Queries::Vectors(matrix) => matrix.clone(),
            Queries::Lines(lines) => {
                let Some(source) = source else {
                    let what = "texts, but the model takes text features, and nobody is there who \
                                encodes them; give vectors (.npy)";
                    return Err(wrong(what.to_owned()));
                };
                let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
                let rows = source.text_rows(corpus.dataset(), set, &lines, progress);
                rows.map_err(|why| {
                    let name = &set.name;
                    wrong(format!("they cannot get the text features {name}: {why}"))
                })?
            }
        };
        let (dim, own) = (matrix.dim(), features.matrix().dim());
        if dim != own {
            let name = &set.name;
            return Err(wrong(format!("{dim} numbers each; the text features {name} have {own}")));
        }
        let mut numbers = vec![0.0; dim];
        let mut is_whole = |&row: &usize| {
            matrix.read_f32(row, &mut numbers);
            numbers.iter().all(|number| number.is_finite())
        };
        let whole: Vec<usize> = (0..matrix.rows()).filter(|row| is_whole(row)).collect();
        if whole.is_empty() {
            return Err(wrong("not one of them can be encoded".to_owned()));
        }
        Ok(matrix.view(whole))
    }
}
