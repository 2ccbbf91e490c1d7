//! Queries matched together, side by side in the lanes of panels.

use std::ops::Range;

use crate::packed::{Packed, Tiles, tile_size};

use super::Ragged;
use super::lengths::lengths;
use super::spans::Attended;

/// Approximate number of lanes matched together: enough that few are left empty.
pub(super) const LANES: Range<usize> = 256..512;

/// Neighbouring lanes whose queries attend to the same item.
#[derive(Clone, Debug)]
pub(super) struct Span {
    /// Their items, by position in the chunk.
    pub(super) items: Range<usize>,
    /// Their panels.
    pub(super) panels: Range<usize>,
    /// Their lanes, counted from the first of these panels.
    pub(super) lanes: Range<usize>,
}

/// Some items of queries, each with a context to attend to.
#[derive(Debug)]
pub(super) struct Chunk {
    /// The lanes of every item.
    pub(super) items: Vec<Range<usize>>,
    /// The items grouped by their context.
    pub(super) spans: Vec<Span>,
    /// The queries, one line per dimension.
    pub(super) queries: Packed,
    /// The memory's projection of the first queries, biases included, in the order of its tiles.
    /// Empty without a memory.
    pub(super) started: Packed,
    /// Norm of the query in every lane of the panels.
    pub(super) norms: Vec<f32>,
}

impl Chunk {
    /// Gathers the `wanted` items of `queries`; each of `groups` is the number of items of one
    /// span. `started` holds the memory's projection of all `queries`.
    pub(super) fn gather(
        queries: Ragged<'_>,
        started: &[f32],
        wanted: &[usize],
        groups: &[usize],
    ) -> Self {
        let rows: Vec<usize> = wanted.iter().flat_map(|&item| queries.rows_of(item)).collect();
        let mut packed = Packed::empty();
        packed.repack_columns(queries.dim, rows.len(), |lane| queries.row(rows[lane]));
        let mut begun = Packed::empty();
        if !started.is_empty() {
            let (size, first) = (2 * queries.dim, queries.first_row());
            let row = |lane: usize| &started[(rows[lane] - first) * size..][..size];
            begun.repack_columns(size, rows.len(), row);
        }
        let mut items = Vec::with_capacity(wanted.len());
        let mut end = 0;
        for &item in wanted {
            let first = end;
            end += queries.rows_of(item).len();
            items.push(first..end);
        }
        let width = packed.width();
        let mut spans = Vec::with_capacity(groups.len());
        let mut next = 0;
        for &count in groups {
            let group = next..next + count;
            next = group.end;
            let (first, end) = (items[group.start].start, items[group.end - 1].end);
            let panels = first / width..end.div_ceil(width);
            let shift = panels.start * width;
            spans.push(Span { items: group, panels, lanes: first - shift..end - shift });
        }
        let norms = lengths(&packed);
        Chunk { items, spans, queries: packed, started: begun, norms }
    }

    /// The lanes of the panels of a span.
    pub(super) fn lanes_of(&self, span: &Span) -> Range<usize> {
        span.panels.start * self.queries.width()..span.panels.end * self.queries.width()
    }

    /// The attention of every span. `of_span` gives, by the number of the span, the weights of the
    /// attended rows and the rows to add.
    pub(super) fn attended<'a>(
        &self,
        of_span: impl Fn(usize) -> (&'a Packed, &'a Tiles),
    ) -> Vec<Attended<'a>> {
        let attended = |(i, span): (usize, &Span)| {
            let (weights, added) = of_span(i);
            let lanes = (span.lanes.start, span.lanes.end);
            Attended { first: span.panels.start, lanes, weights, added }
        };
        self.spans.iter().enumerate().map(attended).collect()
    }

    /// The lanes of the items of a span, counted from the first of its panels.
    pub(super) fn items_of(&self, span: &Span) -> Vec<Range<usize>> {
        let shift = span.panels.start * self.queries.width();
        let items = self.items[span.items.clone()].iter();
        items.map(|lanes| lanes.start - shift..lanes.end - shift).collect()
    }
}

/// Cuts a sequence of items, with these numbers of rows, into runs of about so many lanes, where
/// the fewest lanes stay empty.
pub(super) fn cuts(rows: &[usize], lanes: Range<usize>) -> Vec<Range<usize>> {
    let (_, width) = tile_size();
    let mut runs = Vec::new();
    let mut first = 0;
    while first < rows.len() {
        let (mut sum, mut least, mut cut) = (0, f64::INFINITY, first);
        for (end, rows) in (first + 1..).zip(&rows[first..]) {
            sum += rows;
            let empty = (sum.next_multiple_of(width) - sum) as f64 / sum as f64;
            if empty <= least {
                (least, cut) = (empty, end);
            }
            if sum < lanes.start {
                (least, cut) = (f64::INFINITY, end);
            }
            if sum >= lanes.end {
                break;
            }
        }
        runs.push(first..cut);
        first = cut;
    }
    runs
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cuts_leave_few_lanes_empty() {
        let (_, width) = tile_size();
        let runs = cuts(&[14; 128], LANES);
        assert!(runs.iter().cloned().flatten().eq(0..128));
        let lanes = runs.iter().map(|run| (14 * run.len()).next_multiple_of(width));
        assert!(lanes.sum::<usize>() < 14 * 128 + 14 * 128 / 20);
        assert_eq!(cuts(&[2000, 3], LANES), [0..1, 1..2]);
        assert_eq!(cuts(&[1, 2], LANES).len(), 1);
        assert!(cuts(&[], LANES).is_empty());
    }
}
