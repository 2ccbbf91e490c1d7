//! `log.csv`: a line per epoch, a column per metric.

use std::fmt::Write;
use std::path::Path;

use nextpair_data::AtomicFile;
use nextpair_data::escape::csv_cell;

use super::LogRow;
use crate::Error;

/// Writes the table.
pub(super) fn write(path: &Path, rows: &[LogRow]) -> Result<(), Error> {
    Ok(AtomicFile::write_whole(path, table(rows).as_bytes())?)
}

fn table(rows: &[LogRow]) -> String {
    // In the order in which they first appear.
    let (mut measured, mut tested): (Vec<&str>, Vec<&str>) = (Vec::new(), Vec::new());
    for row in rows {
        collect(&mut measured, &row.metrics);
        row.tested.iter().for_each(|test| collect(&mut tested, &test.metrics));
    }
    let mut text = "step,epoch,round,strategy,seed".to_owned();
    let paired = if tested.is_empty() { None } else { Some("paired") };
    for name in measured.iter().copied().chain(paired).chain(tested.iter().copied()) {
        // Writing to a string cannot fail.
        let _ = write!(text, ",{}", csv_cell(name));
    }
    text.push('\n');
    for row in rows {
        let number = |number: Option<usize>| number.map_or(String::new(), |n| n.to_string());
        let strategy = row.strategy.as_deref().unwrap_or_default();
        let (epoch, round) = (number(row.epoch), number(row.round));
        let _ = write!(text, "{},{epoch},{round},{},{}", row.step, csv_cell(strategy), row.seed);
        let mut cells = |names: &[&str], metrics: &[(String, f64)]| {
            for name in names {
                let found = metrics.iter().find(|(known, _)| known == name);
                let found = found.map_or(String::new(), |(_, value)| value.to_string());
                let _ = write!(text, ",{found}");
            }
        };
        cells(&measured, &row.metrics);
        if paired.is_some() {
            let test = row.tested.as_ref();
            let count = test.map(|test| ("paired".to_owned(), test.paired as f64));
            cells(&["paired"], count.as_slice());
            cells(&tested, test.map_or(&[], |test| &test.metrics));
        }
        text.push('\n');
    }
    text
}

fn collect<'a>(names: &mut Vec<&'a str>, metrics: &'a [(String, f64)]) {
    for (name, _) in metrics {
        if !names.contains(&name.as_str()) {
            names.push(name);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::logs::Tested;

    #[test]
    fn every_metric_has_a_column_and_what_was_not_measured_is_empty() {
        let metric = |name: &str, value: f64| (name.to_owned(), value);
        let first = LogRow {
            step: 1,
            epoch: Some(1),
            seed: 7,
            metrics: vec![metric("loss", 0.5)],
            ..LogRow::default()
        };
        let tested = Tested { paired: 30, metrics: vec![metric("test/rsum", 12.25)] };
        let last = LogRow {
            step: 2,
            epoch: Some(2),
            round: Some(0),
            strategy: Some("a,b".to_owned()),
            metrics: vec![metric("loss", 0.25), metric("dev/rsum", 9.0)],
            tested: Some(tested),
            ..first.clone()
        };
        assert_eq!(
            table(&[first.clone(), last]),
            "step,epoch,round,strategy,seed,loss,dev/rsum,paired,test/rsum\n\
             1,1,,,7,0.5,,,\n\
             2,2,0,\"a,b\",7,0.25,9,30,12.25\n"
        );
        assert_eq!(table(&[first]), "step,epoch,round,strategy,seed,loss\n1,1,,,7,0.5\n");
    }
}
