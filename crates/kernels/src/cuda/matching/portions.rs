//! Which pairs are computed together, and where their queries stand.

use super::Matched;
use crate::cuda::lines::Paired;

/// Queries computed together.
const ROWS: usize = 1 << 14;

/// Numbers of the queries of several members computed together, as memory allows. Tests have several
/// portions of few.
const NUMBERS: usize = if cfg!(test) { 1 << 9 } else { 1 << 26 };

/// Bytes of a device's memory for each of them: what a step makes of a number takes about a sixteenth.
const BYTES: usize = 512;

/// Blocks that a grid can have in its second and third direction.
const BLOCKS: usize = (1 << 16) - 1;

/// The lines of a member are a multiple of so many: few sizes change from step to step.
const EVEN: usize = 64;

/// Pairs of a call, some at a time.
pub(super) struct Portions {
    /// `(context, item)` pairs. Those of several members stand member by member.
    pub(super) pairs: Vec<Vec<(u32, u32)>>,
    /// Where each of them, one portion after the other, was given, unless that is where it is.
    pub(super) order: Option<Vec<u32>>,
}

impl Portions {
    /// Pairs of so many members with so many contexts each, of which `lines` says how many an item has:
    /// about `most` at a time.
    fn of_members(
        pairs: &[(u32, u32)],
        (members, contexts): (usize, usize),
        lines: impl Fn(u32) -> usize,
        most: usize,
    ) -> Self {
        let mut given: Vec<Vec<u32>> = vec![Vec::new(); members];
        for (place, &(context, _)) in pairs.iter().enumerate() {
            given[context as usize / contexts].push(place as u32);
        }
        let longest = given.iter().map(Vec::len).max().unwrap_or(0);
        let lines: usize = pairs.iter().map(|&(_, item)| lines(item)).sum();
        let share = longest.div_ceil(lines.div_ceil(most.max(1)).max(1));
        let share = share.clamp(1, (BLOCKS / members).max(1));
        let own = |first: usize| {
            given.iter().flat_map(move |own| own.iter().skip(first).take(share).copied())
        };
        let portions: Vec<Vec<u32>> =
            (0..longest).step_by(share).map(|first| own(first).collect()).collect();
        let pair = |&place: &u32| pairs[place as usize];
        let order = portions.concat();
        let moved = order.iter().enumerate().any(|(place, &given)| place as u32 != given);
        let pairs = portions.iter().map(|portion| portion.iter().map(pair).collect()).collect();
        Portions { pairs, order: moved.then_some(order) }
    }

    /// Where each of the given pairs is, one portion after the other, unless that is where it was.
    pub(super) fn places(&self) -> Option<Vec<u32>> {
        let order = self.order.as_ref()?;
        let mut places = vec![0; order.len()];
        order.iter().enumerate().for_each(|(place, &given)| places[given as usize] = place as u32);
        Some(places)
    }
}

impl Matched<'_> {
    /// Contexts of a member.
    pub(super) fn contexts_of_member(&self) -> usize {
        (self.contexts.len() / self.members()).max(1)
    }

    /// Divides pairs into portions: of several members, each has equally many pairs of every member, as
    /// long as these have some left.
    pub(super) fn portions(&self, pairs: &[(u32, u32)]) -> Portions {
        if self.members() == 1 {
            let at_once = (ROWS / self.most.max(1)).max(1);
            let pairs = pairs.chunks(at_once).map(<[_]>::to_vec).collect();
            return Portions { pairs, order: None };
        }
        let lines = |item: u32| self.prepared.queries.spans[item as usize].len();
        let numbers = NUMBERS.min(self.unit.gpu().all_memory() / BYTES);
        let most = numbers / self.dim.max(1);
        Portions::of_members(pairs, (self.members(), self.contexts_of_member()), lines, most)
    }

    /// The lines of pairs that stand member by member, and how many a member has.
    pub(super) fn paired(&self, pairs: &[(u32, u32)]) -> (Paired, usize) {
        // Without a memory nothing has to be even.
        let members = if self.prepared.memory.is_some() { self.members() } else { 1 };
        let queries = &self.prepared.queries;
        let each = self.contexts.len().div_ceil(members).max(1);
        let of = |member: usize| {
            let first = pairs.partition_point(|pair| (pair.0 as usize) < member * each);
            let end = pairs.partition_point(|pair| (pair.0 as usize) < (member + 1) * each);
            if members == 1 { pairs } else { &pairs[first..end] }
        };
        let count = |pairs: &[(u32, u32)]| {
            pairs.iter().map(|&(_, item)| queries.spans[item as usize].len()).sum::<usize>()
        };
        let longest = (0..members).map(|member| count(of(member))).max().unwrap_or(0);
        let of_member = if members == 1 { longest } else { longest.next_multiple_of(EVEN) };
        let (mut firsts, mut ends) = (Vec::with_capacity(pairs.len()), Vec::new());
        let (mut words, mut unused) = (Vec::with_capacity(members * of_member), Vec::new());
        for member in 0..members {
            for &(_, item) in of(member) {
                let span = &queries.spans[item as usize];
                firsts.push(words.len() as u32);
                words.extend(span.start as u32..span.end as u32);
                ends.push(words.len() as u32);
            }
            let end = (member + 1) * of_member;
            unused.extend(words.len() as u32..end as u32);
            words.resize(end, (member * queries.width) as u32);
        }
        let contexts = pairs.iter().map(|&(context, _)| context).collect();
        (Paired { contexts, firsts, ends, words, unused }, of_member)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn portions_have_every_pair_once() {
        // Three members of four contexts, in the order of nobody.
        let pairs: Vec<(u32, u32)> =
            (0..90).map(|at| (at * 7 % 11, 100 + at)).filter(|pair| pair.0 != 5).collect();
        let portions = |most: usize| Portions::of_members(&pairs, (3, 4), |_| 5, most);
        for most in [1, 40, 100, 1000] {
            let found = portions(most);
            let all = found.pairs.concat();
            let order = found.order.as_ref().unwrap();
            let given: Vec<_> = order.iter().map(|&place| pairs[place as usize]).collect();
            assert_eq!(all, given);
            let back: Vec<_> =
                found.places().unwrap().iter().map(|&place| all[place as usize]).collect();
            assert_eq!(back, pairs);
            for portion in &found.pairs {
                assert!(portion.is_sorted_by_key(|pair| pair.0 / 4), "member by member");
            }
        }
        assert_eq!(portions(1000).pairs.len(), 1);
        assert!(portions(100).pairs.len() >= 4);
        let sorted = [(0, 1), (3, 0), (4, 4), (11, 9)];
        let found = Portions::of_members(&sorted, (3, 4), |_| 1, 1000);
        assert_eq!(found.pairs, [sorted]);
        assert!(found.order.is_none() && found.places().is_none());
    }
}
