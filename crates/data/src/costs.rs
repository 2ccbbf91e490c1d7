//! Costs of items.

use std::collections::HashMap;
use std::path::Path;

use csv::{ReaderBuilder, StringRecord};

use crate::mapping::{self, Bytes};
use crate::rows::reason;
use crate::{Error, listed};

/// Reads the costs of items: a CSV with the columns `id` and `cost`. Returns the cost of each of `ids`, in their order;
/// other rows are ignored, so that one file of prices serves many pools.
///
/// # Errors
/// If an item has no cost, or two, or one that is not a number above 0.
pub fn read_costs<'a>(
    path: &Path,
    ids: impl IntoIterator<Item = &'a str>,
) -> Result<Vec<f64>, Error> {
    let costs = mapping::read(path, |bytes| rows(path, bytes))?;
    let cost = |id: &str| {
        let what = || format!("no cost for the pool item {id:?}");
        costs.get(id).copied().ok_or_else(|| Error::format(path, what()))
    };
    ids.into_iter().map(cost).collect()
}

fn rows(path: &Path, bytes: &Bytes) -> Result<HashMap<String, f64>, Error> {
    let mut reader = ReaderBuilder::new().trim(csv::Trim::All).from_reader(bytes.as_slice());
    let header = reader.headers().cloned().map_err(|e| Error::line(path, 1, reason(&e)))?;
    let column = |name: &str| {
        let found = header.iter().position(|cell| cell.eq_ignore_ascii_case(name));
        let what = || format!("no column {name}; there are {}", listed(header.iter()));
        found.ok_or_else(|| Error::line(path, 1, what()))
    };
    let (id, cost) = (column("id")?, column("cost")?);
    let (mut costs, mut record) = (HashMap::new(), StringRecord::new());
    loop {
        let line = reader.position().line() as usize;
        if !reader.read_record(&mut record).map_err(|e| Error::line(path, line, reason(&e)))? {
            return Ok(costs);
        }
        let line = record.position().map_or(line, |place| place.line() as usize);
        let (id, text) = (&record[id], &record[cost]);
        let number: Option<f64> = text.parse().ok();
        let Some(number) = number.filter(|number| number.is_finite() && *number > 0.0) else {
            let what = format!("the cost of {id:?} is {text:?}; it must be a number above 0");
            return Err(Error::line(path, line, what));
        };
        if costs.insert(id.to_owned(), number).is_some() {
            return Err(Error::line(path, line, format!("{id:?} has a cost already")));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(content: &str, ids: &[&str]) -> Result<Vec<f64>, String> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("costs.csv");
        std::fs::write(&path, content).unwrap();
        read_costs(&path, ids.iter().copied()).map_err(|error| error.to_string())
    }

    #[test]
    fn every_item_has_one_cost() {
        let table = "Cost,note,id\n2.5,,b\n1,\"x, y\",\"a, 1\"\n9,,unknown\n";
        assert_eq!(read(table, &["a, 1", "b", "b"]), Ok(vec![1.0, 2.5, 2.5]));
        for (content, said) in [
            (table, "no cost for the pool item \"c\""),
            ("id,price\nc,1\n", ":1: no column cost; there are id, price"),
            (
                "id,cost\nb,1\nc,free\n",
                ":3: the cost of \"c\" is \"free\"; it must be a number above 0",
            ),
            ("id,cost\nc,0\n", ":2: the cost of \"c\" is \"0\"; it must be a number above 0"),
            ("id,cost\nc,inf\n", ":2: the cost of \"c\" is \"inf\"; it must be a number above 0"),
            ("id,cost\nc,1\nc,2\n", ":3: \"c\" has a cost already"),
            ("id,cost\nc\n", ":2: "),
        ] {
            let error = read(content, &["c"]).unwrap_err();
            assert!(error.contains(said), "{error}");
        }
    }
}
