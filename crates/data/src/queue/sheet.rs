//! A queue as a sheet to fill in with a spreadsheet.
//!
//! Spreadsheets execute cells that begin like a formula, and ids and captions may come from
//! anywhere. Such a cell gets an apostrophe in front, which makes it text; [`unguarded`] removes it
//! again when an id is read back. Open the sheet as comma-separated UTF-8: with another separator,
//! cells may begin elsewhere.

use std::io::Write;
use std::path::{Path, absolute};

use super::shown::{Queue, TaskWithItem, wanted};
use super::{Answer, AnswerContent, Outcome, Provenance, Task};
use crate::dataset::Dataset;
use crate::{AtomicFile, Error, Side};

/// Without this mark some spreadsheets do not detect UTF-8.
const BYTE_ORDER_MARK: &[u8] = "\u{feff}".as_bytes();

/// The column that marks an export, as opposed to a sheet that people filled in.
pub(super) const EXPORTED: &str = "exported";
/// The column that says what became of a suggestion, in exports.
pub(super) const PROVENANCE: &str = "provenance";

/// Writes one row per task: the question, and empty cells for the answer. Annotators fill in the
/// last two columns: `caption` (for text pools `image`, the id of an item of the dataset), and
/// `skip` for the reason why there is none. [`read_answers`](super::read_answers) reads it.
pub fn write_csv(path: &Path, tasks: &[Task], dataset: &Dataset, pool: Side) -> Result<(), Error> {
    let queue = Queue::of(path, tasks, dataset)?;
    let questions = Questions::of(dataset, pool);
    let mut file = AtomicFile::create(path)?;
    let mut write = || {
        let mut sheet = begun(&mut file)?;
        sheet.write_record(questions.header().iter().map(String::as_str).chain(["skip"]))?;
        for shown in queue.iter() {
            let cells = questions.cells(&shown);
            sheet.write_record(cells.iter().map(String::as_str).chain(["", ""]))?;
        }
        sheet.flush()
    };
    write().map_err(|e: std::io::Error| Error::io(path, e))?;
    file.commit()
}

/// Writes one row per answer, in the columns of [`write_csv`] and two more: the annotator, and
/// `exported`, which names the cell with the answer. Tasks that are `open` follow: their `exported`
/// says why there is none. In a sheet with that column all cells are guarded, so
/// [`read_answers`](super::read_answers) restores every answer exactly.
pub(super) fn write_answers(
    out: &mut dyn Write,
    queue: &Queue<'_>,
    answers: &[Answer],
    open: &[(&str, Outcome)],
    questions: &Questions<'_>,
) -> std::io::Result<()> {
    let mut sheet = begun(out)?;
    let more = ["skip", "annotator", EXPORTED];
    // Only where something was suggested: others need not wonder about an empty column.
    let suggested = answers.iter().any(|answer| answer.provenance.is_some());
    let more = more.into_iter().chain(suggested.then_some(PROVENANCE));
    sheet.write_record(questions.header().iter().map(String::as_str).chain(more))?;
    for answer in answers {
        let Some(shown) = queue.get(&answer.id) else { continue };
        let (said, skip, exported) = match &answer.said {
            AnswerContent::Caption(said) => (guarded(said), String::new(), "caption"),
            AnswerContent::Image(said) => (guarded(said), String::new(), "image"),
            AnswerContent::Skip(reason) => (String::new(), guarded(reason), "skip"),
        };
        let annotator = guarded(answer.annotator.as_deref().unwrap_or_default());
        let cells = questions.cells(&shown).into_iter();
        let more = [said, skip, annotator, exported.to_owned()];
        let provenance = answer.provenance.map_or("", Provenance::name).to_owned();
        sheet.write_record(cells.chain(more).chain(suggested.then_some(provenance)))?;
    }
    for (id, outcome) in open {
        let Some(shown) = queue.get(id) else { continue };
        let more = ["", "", "", outcome.name()].map(str::to_owned);
        let cells = questions.cells(&shown).into_iter().chain(more);
        sheet.write_record(cells.chain(suggested.then(String::new)))?;
    }
    sheet.flush()
}

fn begun<W: Write>(mut out: W) -> std::io::Result<csv::Writer<W>> {
    out.write_all(BYTE_ORDER_MARK)?;
    Ok(csv::Writer::from_writer(out))
}

/// The columns of a sheet that hold the question.
pub(super) struct Questions<'a> {
    pool: Side,
    dataset: &'a Dataset,
}

impl<'a> Questions<'a> {
    pub(super) fn of(dataset: &'a Dataset, pool: Side) -> Self {
        Questions { pool, dataset }
    }

    /// The names of these columns, and of the answer column after them.
    fn header(&self) -> [String; 5] {
        let wanted = wanted(self.pool);
        ["id", &self.pool.to_string(), "score", "confused_with", wanted].map(str::to_owned)
    }

    fn cells(&self, shown: &TaskWithItem<'_>) -> [String; 4] {
        let given = match (self.pool, self.dataset.image_path(&shown.item)) {
            (Side::Text, _) => shown.item.captions.join(" | "),
            (_, Some(file)) => absolute(&file).unwrap_or(file).to_string_lossy().into(),
            _ => shown.image().to_owned(),
        };
        let confused_with = guarded(&shown.confused_with(" | "));
        let score = shown.task.score.to_string();
        [guarded(&shown.task.id), guarded(&given), score, confused_with]
    }
}

/// Puts an apostrophe in front of a cell that a spreadsheet could take for a formula. A cell that
/// already begins with apostrophes gets one more, so that the guard can be undone.
pub fn guarded(cell: &str) -> String {
    let apostrophe = if begins_a_formula(cell.trim_start_matches('\'')) { "'" } else { "" };
    format!("{apostrophe}{cell}")
}

/// Undoes [`guarded`]. A spreadsheet may have removed the apostrophe already.
pub(super) fn unguarded(cell: &str) -> &str {
    match cell.strip_prefix('\'') {
        Some(bare) if begins_a_formula(bare.trim_start_matches('\'')) => bare,
        _ => cell,
    }
}

/// Includes the full-width forms, which some spreadsheets treat like the ordinary ones.
fn begins_a_formula(cell: &str) -> bool {
    cell.starts_with(['=', '+', '-', '@', '\t', '\r', '\n', '＝', '＋', '－', '＠'])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dataset::sample::{dataset, item};
    use crate::queue::{Why, read_answers};

    const IDS: [&str; 7] = ["=1+1", "'=1", "''@x", "'plain'", "a,\"b\"", "-", "ü"];

    fn task(id: &str, confused_with: &[&str]) -> Task {
        let why = |caption: &&str| Why {
            id: Some("w".into()),
            caption: Some((*caption).into()),
            similarity: 0.5,
            threshold: 0.25,
            surplus: 0.25,
            ..Why::default()
        };
        let why = confused_with.iter().map(why).collect();
        Task { rank: 1, id: id.into(), score: -0.25, why, ..Task::default() }
    }

    #[test]
    fn a_sheet_shows_what_people_need() {
        let folder = tempfile::tempdir().unwrap();
        let (path, root) = (folder.path().join("queue.csv"), folder.path().join("d"));
        let items = [item("a", Some("x/a b.jpg"), &[]), item("b", None, &["@one", "two\nlines"])];
        let tasks = [task("b", &["A \"dog\" .", "=cat()"]), task("a", &["=HYPERLINK(\"x\")", "B"])];
        let data = dataset(&root, &items, |manifest| manifest.images = Some("images".into()));
        write_csv(&path, &tasks, &data, Side::Image).unwrap();
        let image = root.join("images").join("x").join("a b.jpg");
        let expected = format!(
            "\u{feff}id,image,score,confused_with,caption,skip\n\
             b,b,-0.25,\"A \"\"dog\"\" . | =cat()\",,\n\
             a,{},-0.25,\"'=HYPERLINK(\"\"x\"\") | B\",,\n",
            image.display()
        );
        assert_eq!(std::fs::read_to_string(&path).unwrap(), expected);
        assert!(read_answers(&path, Side::Image, &data).unwrap().is_empty());

        drop(data);
        let data = dataset(&root, &items, |_| {});
        write_csv(&path, &tasks, &data, Side::Image).unwrap();
        assert!(std::fs::read_to_string(&path).unwrap().contains("\na,x/a b.jpg,"));
        write_csv(&path, &tasks[..1], &data, Side::Text).unwrap();
        let expected = "\u{feff}id,text,score,confused_with,image,skip\n\
                        b,\"'@one | two\nlines\",-0.25,\"A \"\"dog\"\" . | =cat()\",,\n";
        assert_eq!(std::fs::read_to_string(&path).unwrap(), expected);

        let what = write_csv(&path, &[task("none", &[])], &data, Side::Image).unwrap_err();
        assert!(
            what.to_string().contains("row 0") && what.to_string().contains("no item \"none\"")
        );
        assert_eq!(std::fs::read_to_string(&path).unwrap(), expected, "the old sheet stays");
    }

    #[test]
    fn every_id_comes_back() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("queue.csv");
        let data = dataset(&folder.path().join("d"), &IDS.map(|id| item(id, None, &["c"])), |_| {});
        for (pool, said) in [
            (Side::Image, AnswerContent::Caption("x".into())),
            (Side::Text, AnswerContent::Image("x".into())),
        ] {
            write_csv(&path, &IDS.map(|id| task(id, &[])), &data, pool).unwrap();
            let sheet = std::fs::read_to_string(&path).unwrap();
            let formula = |line: &str| begins_a_formula(line.trim_start_matches('"'));
            assert!(!sheet.lines().any(formula), "{sheet}");
            // An annotator fills it in, and the spreadsheet changes the line ends.
            std::fs::write(&path, sheet.replace(",,\n", ",x ,\r\n")).unwrap();
            let expected = IDS.map(|id| Answer {
                id: id.into(),
                said: said.clone(),
                annotator: None,
                provenance: None,
            });
            assert_eq!(read_answers(&path, pool, &data).unwrap(), expected);
        }
    }

    #[test]
    fn guards_come_off_as_they_went_on() {
        for cell in ["", "'", "''", "a", "=", "+1", "-1", "@a", "\ta", "\ra", "＝a", "'=", "'''-"]
        {
            let guarded = guarded(cell);
            assert!(!begins_a_formula(&guarded), "{guarded}");
            assert_eq!(unguarded(&guarded), cell);
        }
        assert_eq!(unguarded("=kept by a spreadsheet"), "=kept by a spreadsheet");
    }
}
