//! A queue as a sheet that people fill in with a spreadsheet.
//!
//! Spreadsheets run cells that begin like a formula, and ids and captions come from anywhere. Such
//! a cell gets an apostrophe in front, which makes it text; [`unguarded`] takes it off again when
//! an id comes back. Open the sheet as comma-separated UTF-8: read with another separator, cells
//! may begin elsewhere.

use std::io::Write;
use std::path::{Path, absolute};

use super::Task;
use super::shown::{Shown, wanted};
use crate::dataset::Dataset;
use crate::{AtomicFile, Error, Side};

/// Without this mark some spreadsheets take UTF-8 for something else.
const BYTE_ORDER_MARK: &[u8] = "\u{feff}".as_bytes();

/// Writes one row per task: what people need to see, and empty cells for what they say. The last
/// two columns are theirs: `caption` (for text pools `image`, the id of an item of the dataset),
/// and `skip` for the reason why there is none. [`read_answers`](super::read_answers) reads it.
pub fn write_csv(path: &Path, tasks: &[Task], dataset: &Dataset, pool: Side) -> Result<(), Error> {
    let shown = Shown::all(path, tasks, dataset)?;
    let folder = dataset.image_folder().map(absolute).transpose();
    let folder = folder.map_err(|e| Error::io(path, e))?;
    let mut file = AtomicFile::create(path)?;
    let write = || {
        file.write_all(BYTE_ORDER_MARK)?;
        let mut sheet = csv::Writer::from_writer(&mut file);
        let given = pool.to_string();
        sheet.write_record(["id", &given, "score", "confused_with", wanted(pool), "skip"])?;
        for task in shown {
            let given = match (pool, &folder, &task.item.image) {
                (Side::Text, ..) => task.item.captions.join(" | "),
                (_, Some(folder), Some(image)) => folder.join(image).to_string_lossy().into(),
                _ => task.image().to_owned(),
            };
            let (id, confused_with) = (guarded(&task.task.id), task.confused_with(" | "));
            let (given, confused_with) = (guarded(&given), guarded(&confused_with));
            sheet.write_record([
                &id,
                &given,
                &task.task.score.to_string(),
                &confused_with,
                "",
                "",
            ])?;
        }
        sheet.flush()
    };
    write().map_err(|e: std::io::Error| Error::io(path, e))?;
    file.commit()
}

/// The cell with an apostrophe in front if a spreadsheet could take it for a formula. One that has
/// apostrophes there already gets one more, so that every cell can be told from every other.
fn guarded(cell: &str) -> String {
    match begins_a_formula(cell.trim_start_matches('\'')) {
        true => format!("'{cell}"),
        false => cell.to_owned(),
    }
}

/// The cell that was [`guarded`]; a spreadsheet may have taken the apostrophe off already.
pub(super) fn unguarded(cell: &str) -> &str {
    match cell.strip_prefix('\'') {
        Some(bare) if begins_a_formula(bare.trim_start_matches('\'')) => bare,
        _ => cell,
    }
}

/// The wide forms are those that some spreadsheets take for the narrow ones.
fn begins_a_formula(cell: &str) -> bool {
    cell.starts_with(['=', '+', '-', '@', '\t', '\r', '\n', '＝', '＋', '－', '＠'])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dataset::sample::{dataset, item};
    use crate::queue::{Answer, Said, Why, read_answers};

    const IDS: [&str; 7] = ["=1+1", "'=1", "''@x", "'plain'", "a,\"b\"", "-", "ü"];

    fn task(id: &str, confused_with: &[&str]) -> Task {
        let why = |caption: &&str| Why {
            id: "w".into(),
            caption: (*caption).into(),
            similarity: 0.5,
            threshold: 0.25,
            surplus: 0.25,
        };
        let why = confused_with.iter().map(why).collect();
        Task { rank: 1, id: id.into(), score: -0.25, hits: None, why }
    }

    #[test]
    fn a_sheet_shows_what_people_need() {
        let folder = tempfile::tempdir().unwrap();
        let (path, root) = (folder.path().join("queue.csv"), folder.path().join("d"));
        let items = [item("a", Some("x/a b.jpg"), &[]), item("b", None, &["@one", "two\nlines"])];
        let tasks = [task("b", &["A \"dog\" .", "=cat()"]), task("a", &["=HYPERLINK(\"x\")", "B"])];
        let data = dataset(&root, &items, |manifest| manifest.images = Some("images".into()));
        write_csv(&path, &tasks, &data, Side::Image).unwrap();
        let image = root.join("images/x/a b.jpg");
        let expected = format!(
            "\u{feff}id,image,score,confused_with,caption,skip\n\
             b,b,-0.25,\"A \"\"dog\"\" . | =cat()\",,\n\
             a,{},-0.25,\"'=HYPERLINK(\"\"x\"\") | B\",,\n",
            image.display()
        );
        assert_eq!(std::fs::read_to_string(&path).unwrap(), expected);
        assert!(read_answers(&path, Side::Image).unwrap().is_empty());

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
        for (pool, said) in
            [(Side::Image, Said::Caption("x".into())), (Side::Text, Said::Image("x".into()))]
        {
            write_csv(&path, &IDS.map(|id| task(id, &[])), &data, pool).unwrap();
            let sheet = std::fs::read_to_string(&path).unwrap();
            let formula = |line: &str| begins_a_formula(line.trim_start_matches('"'));
            assert!(!sheet.lines().any(formula), "{sheet}");
            // Somebody fills it in, and a spreadsheet turns its line ends.
            std::fs::write(&path, sheet.replace(",,\n", ",x ,\r\n")).unwrap();
            let expected =
                IDS.map(|id| Answer { id: id.into(), said: said.clone(), annotator: None });
            assert_eq!(read_answers(&path, pool).unwrap(), expected);
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
