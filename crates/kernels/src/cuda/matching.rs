//! Scores of some pairs and their gradients on a GPU, in single precision.
//!
//! The pairs of a call are taken some at a time. Their queries are padded to the longest, and so are
//! contexts: products of many small matrices are one call. Names are those of `cross`.

use nextpair_cuda::{Array, Operand, Pointer};

use super::Unit;
use super::tables::{MemoryArrays, Rows};
use crate::{Attention, Error};

/// Rows of queries computed together.
const ROWS: usize = 1 << 14;

/// Attention in one direction between contexts and queries that are on a GPU.
pub(crate) struct Matched<'a> {
    unit: &'a Unit,
    dim: usize,
    attention: Attention,
    attending: Array<u32>,
    memory: Option<MemoryArrays<'a>>,
    contexts: Rows<'a>,
    queries: Rows<'a>,
    context_offsets: Array<u32>,
    query_offsets: Array<u32>,
    /// Rows of a context at most, and queries of an item.
    rows: usize,
    most: usize,
    /// Contexts, padded.
    padded: Array<f32>,
    /// Gram matrices of the contexts.
    grams: Array<f32>,
    /// Norms of the queries.
    norms: Array<f32>,
    /// What both layers make of the rows of contexts, and of queries with the biases.
    tables: Option<(Array<f32>, Array<f32>)>,
}

/// The gradients of one direction.
pub(crate) struct Gradients {
    pub(crate) contexts: Array<f32>,
    pub(crate) queries: Array<f32>,
    pub(crate) memory: Option<[Array<f32>; 4]>,
}

/// The buffers of some pairs, of every step.
struct Pass {
    count: usize,
    /// The pairs, as kernels read them.
    described: Array<u64>,
    /// What the description points to.
    _named: [Array<u32>; 2],
    contexts: Vec<u32>,
    items: Vec<u32>,
    /// The pairs of each context: where they begin among the members.
    firsts: Array<u32>,
    members: Array<u32>,
    /// Queries of every step.
    queries: Vec<Array<f32>>,
    /// Raw scores and weights of every step.
    raw: Vec<Array<f32>>,
    weights: Vec<Array<f32>>,
    /// The values of both layers between steps, and the norms of what they refine.
    layers: Vec<Array<f32>>,
    norms: Vec<Option<Array<f32>>>,
    scores: Array<f32>,
}

impl Pass {
    /// `(context, pair)` of all pairs.
    fn by_context(&self) -> impl Iterator<Item = (u32, u32)> {
        self.contexts.iter().enumerate().map(|(pair, &context)| (context, pair as u32))
    }
}

/// Gradients of one direction while they are added up.
struct Sums {
    padded: Array<f32>,
    queries: Array<f32>,
    /// Those of the tables, of the two weights and of both biases.
    memory: Option<OfMemory>,
}

struct OfMemory {
    projected: Array<f32>,
    weights: [Array<f32>; 2],
    bias: Array<f32>,
}

impl<'a> Matched<'a> {
    pub(crate) fn new(
        unit: &'a Unit,
        dim: usize,
        attention: Attention,
        memory: Option<MemoryArrays<'a>>,
        contexts: Rows<'a>,
        queries: Rows<'a>,
    ) -> Result<Self, Error> {
        let (rows, most) = (contexts.longest(), queries.longest());
        let context_offsets = unit.offsets(contexts.offsets)?;
        let query_offsets = unit.offsets(queries.offsets)?;
        let padded = if contexts.is_uniform() {
            contexts.values.clone()
        } else {
            pad(unit, contexts.values, &context_offsets, None, (contexts.len(), rows, dim))?
        };
        let grams = unit.empty(contexts.len() * rows * rows)?;
        let own = Operand::new(&padded, 0, dim).apart(rows * dim);
        let to = Operand::new(&grams, 0, rows).apart(rows * rows);
        unit.multiply_each(contexts.len(), (rows, rows, dim), own, own.turned(), 0.0, to)?;
        let norms = unit.norms(queries.values, dim)?;
        let memory = memory.filter(|_| attention.steps > 1);
        let tables = memory.map(|memory| {
            let projected = unit.empty(padded.len() * 2)?;
            let of_rows = (&padded, padded.len() / dim);
            project(unit, of_rows, dim, memory, dim, 0.0, &projected)?;
            let of_queries = biased(unit, memory, queries.values.len() / dim)?;
            let rows = (queries.values, queries.values.len() / dim);
            project(unit, rows, dim, memory, 0, 1.0, &of_queries)?;
            Ok::<_, Error>((projected, of_queries))
        });
        Ok(Matched {
            unit,
            dim,
            attention,
            attending: unit.attending(&attention)?,
            memory,
            contexts,
            queries,
            context_offsets,
            query_offsets,
            rows,
            most,
            padded,
            grams,
            norms,
            tables: tables.transpose()?,
        })
    }

    /// Pairs computed together.
    fn at_once(&self) -> usize {
        (ROWS / self.most.max(1)).max(1)
    }

    /// Adds the scores of `(context, item)` pairs to `out`.
    pub(crate) fn add_scores(
        &self,
        pairs: &[(u32, u32)],
        out: &mut Array<f32>,
    ) -> Result<(), Error> {
        let mut first = 0;
        for pairs in pairs.chunks(self.at_once()) {
            let pass = self.forward(pairs)?;
            let arguments = [out.at(first).into(), (&pass.scores).into(), pairs.len().into()];
            self.unit.run("add", nextpair_cuda::Grid::each(pairs.len()), &arguments)?;
            first += pairs.len();
        }
        Ok(())
    }

    /// The gradients of the scores of pairs, with `upstream` those of the scores.
    pub(crate) fn gradients(
        &self,
        pairs: &[(u32, u32)],
        upstream: &Array<f32>,
    ) -> Result<Gradients, Error> {
        let (unit, dim) = (self.unit, self.dim);
        let memory = self.memory.map(|_| {
            let weight = || unit.zeros(2 * dim * dim);
            let weights = [weight()?, weight()?];
            let projected = unit.zeros(self.padded.len() * 2)?;
            Ok::<_, Error>(OfMemory { projected, weights, bias: unit.zeros(2 * dim)? })
        });
        let mut sums = Sums {
            padded: unit.zeros(self.padded.len())?,
            queries: unit.zeros(self.queries.values.len())?,
            memory: memory.transpose()?,
        };
        let mut first = 0;
        for pairs in pairs.chunks(self.at_once()) {
            let pass = self.forward(pairs)?;
            self.backward(pass, upstream.at(first), &mut sums)?;
            first += pairs.len();
        }
        self.finish(sums)
    }

    fn forward(&self, pairs: &[(u32, u32)]) -> Result<Pass, Error> {
        let Matched { unit, dim, rows, most, .. } = *self;
        let count = pairs.len();
        let (contexts, items): (Vec<u32>, Vec<u32>) = pairs.iter().copied().unzip();
        let named = [unit.array(&contexts)?, unit.array(&items)?];
        let described = unit.array(&[
            named[0].pointer().bits(),
            named[1].pointer().bits(),
            self.context_offsets.pointer().bits(),
            self.query_offsets.pointer().bits(),
            self.grams.pointer().bits(),
            self.norms.pointer().bits(),
            most as u64 | (rows as u64) << 32,
        ])?;
        let mut members: Vec<u32> = (0..count as u32).collect();
        members.sort_by_key(|&pair| contexts[pair as usize]);
        let mut firsts = vec![0u32; self.contexts.len() + 1];
        contexts.iter().for_each(|&context| firsts[context as usize + 1] += 1);
        (1..firsts.len()).for_each(|at| firsts[at] += firsts[at - 1]);
        let size = (count, most, dim);
        let first = pad(unit, self.queries.values, &self.query_offsets, Some(&named[1]), size)?;
        let mut pass = Pass {
            count,
            described,
            contexts,
            items,
            firsts: unit.array(&firsts)?,
            members: unit.array(&members)?,
            queries: vec![first],
            raw: Vec::new(),
            weights: Vec::new(),
            layers: Vec::new(),
            norms: Vec::new(),
            scores: unit.zeros(count)?,
            _named: named,
        };
        for step in 0..self.attention.steps {
            let raw = unit.empty(count * most * rows)?;
            let queries = self.of_pairs(&pass, &pass.queries[step], most * dim, dim)?;
            let contexts = self.of_contexts(&pass, &self.padded, rows * dim, dim)?;
            let to = self.of_pairs(&pass, &raw, most * rows, rows)?;
            let (left, right) = (queries.operand, contexts.operand.turned());
            unit.multiply_at(count, (most, rows, dim), left, right, 0.0, to.operand)?;
            let weights = unit.empty(count * most * rows)?;
            pass.raw.push(raw);
            let arguments = [
                (&weights).into(),
                (&pass.scores).into(),
                (&pass.raw[step]).into(),
                (&pass.raw[0]).into(),
                (&pass.described).into(),
                (&self.attending).into(),
            ];
            let shared = 4 * (most * rows + 2 * most);
            let grid = nextpair_cuda::Grid::blocks(count, 32).shared(shared);
            unit.run("attend_pairs", grid, &arguments)?;
            pass.weights.push(weights);
            if step + 1 < self.attention.steps {
                self.refine(&mut pass, step)?;
            }
        }
        Ok(pass)
    }

    /// Refines the queries of a step.
    fn refine(&self, pass: &mut Pass, step: usize) -> Result<(), Error> {
        let Matched { unit, dim, rows, most, .. } = *self;
        let (Some(memory), Some((projected, of_queries))) = (self.memory, &self.tables) else {
            return Err(Error::NoMemory { steps: self.attention.steps });
        };
        let (count, lines) = (pass.count, pass.count * most);
        let layers = match step {
            0 => {
                let size = (count, most, 2 * dim);
                pad(unit, of_queries, &self.query_offsets, Some(&pass._named[1]), size)?
            }
            _ => {
                let out = biased(unit, memory, lines)?;
                project(unit, (&pass.queries[step], lines), dim, memory, 0, 1.0, &out)?;
                out
            }
        };
        let weights = self.of_pairs(pass, &pass.weights[step], most * rows, rows)?;
        let table = self.of_contexts(pass, projected, rows * 2 * dim, 2 * dim)?;
        let to = self.of_pairs(pass, &layers, most * 2 * dim, 2 * dim)?;
        let size = (most, 2 * dim, rows);
        unit.multiply_at(count, size, weights.operand, table.operand, 1.0, to.operand)?;
        let refined = unit.empty(lines * dim)?;
        let norms = self.attention.normalise_memory.then(|| unit.empty(lines)).transpose()?;
        let arguments = [
            (&refined).into(),
            (&layers).into(),
            (&pass.queries[step]).into(),
            norms.as_ref().into(),
            dim.into(),
        ];
        unit.run("refine", Unit::rows(lines), &arguments)?;
        pass.layers.push(layers);
        pass.norms.push(norms);
        pass.queries.push(refined);
        Ok(())
    }

    fn backward(&self, mut pass: Pass, upstream: Pointer, sums: &mut Sums) -> Result<(), Error> {
        let Matched { unit, dim, rows, most, .. } = *self;
        let (count, lines) = (pass.count, pass.count * most);
        let of_first = unit.zeros::<f32>(lines * rows)?;
        let of_grams = unit.zeros::<f32>(count * rows * rows)?;
        let radial = unit.zeros::<f32>(lines)?;
        let contexts = self.of_contexts(&pass, &self.padded, rows * dim, dim)?;
        // The gradient of the queries of the step, once it is known, and of its weights.
        let of_queries = unit.zeros::<f32>(lines * dim)?;
        let to_queries = self.of_pairs(&pass, &of_queries, most * dim, dim)?;
        let mut of_weights: Option<Array<f32>> = None;
        for step in (0..self.attention.steps).rev() {
            let of_raw = unit.empty::<f32>(lines * rows)?;
            let arguments = [
                (&of_raw).into(),
                (&of_first).into(),
                (&of_grams).into(),
                (&radial).into(),
                (&pass.weights[step]).into(),
                (&pass.raw[step]).into(),
                (&pass.raw[0]).into(),
                of_weights.as_ref().into(),
                upstream.into(),
                (&pass.described).into(),
                (&self.attending).into(),
            ];
            let shared = 4 * (3 * most * rows + 4 * most);
            let grid = nextpair_cuda::Grid::blocks(count, 32).shared(shared);
            unit.run("attend_pairs_back", grid, &arguments)?;
            if step == 0 {
                // The first raw scores are also factors of every cosine.
                let arguments = [(&of_raw).into(), (&of_first).into(), of_raw.len().into()];
                unit.run("add", nextpair_cuda::Grid::each(of_raw.len()), &arguments)?;
            }
            self.add_to_contexts(&pass, &of_raw, &pass.queries[step], dim, &sums.padded)?;
            let of_raw = self.of_pairs(&pass, &of_raw, most * rows, rows)?;
            let (left, right) = (of_raw.operand, contexts.operand);
            unit.multiply_at(count, (most, dim, rows), left, right, 1.0, to_queries.operand)?;
            if step > 0 {
                of_weights = Some(self.refine_back(&mut pass, step, &of_queries, sums)?);
            }
        }
        // The gradients of Gram matrices, of all pairs of a context together.
        let places = self.contexts.len();
        let of_grams = unit.add_rows(&of_grams, rows * rows, pass.by_context(), places)?;
        let left = Operand::new(&of_grams, 0, rows).apart(rows * rows);
        let right = Operand::new(&self.padded, 0, dim).apart(rows * dim);
        let to = Operand::new(&sums.padded, 0, dim).apart(rows * dim);
        unit.multiply_each(places, (rows, dim, rows), left, right, 1.0, to)?;
        let first = &pass.queries[0];
        let arguments = [(&of_queries).into(), first.into(), (&radial).into(), dim.into()];
        unit.run("add_radial", Unit::rows(lines), &arguments)?;
        let words = self.words_of(&pass);
        let found = unit.add_rows(&of_queries, dim, words, self.queries.values.len() / dim)?;
        unit.add(&mut sums.queries, &found)?;
        Ok(())
    }

    /// Adds to the padded gradients of contexts the products of `left`, pairs by queries by rows, and
    /// `right`, pairs by queries by columns.
    fn add_to_contexts(
        &self,
        pass: &Pass,
        left: &Array<f32>,
        right: &Array<f32>,
        columns: usize,
        out: &Array<f32>,
    ) -> Result<(), Error> {
        let arguments = [
            out.into(),
            left.into(),
            right.into(),
            (&pass.firsts).into(),
            (&pass.members).into(),
            (&pass.described).into(),
            columns.into(),
        ];
        let blocks = (columns.div_ceil(128), self.rows.div_ceil(12), self.contexts.len());
        let blocks = (blocks.0 as u32, blocks.1 as u32, blocks.2 as u32);
        let grid = nextpair_cuda::Grid { blocks, threads: 128, shared: 0 };
        self.unit.run("add_to_contexts", grid.shared(4 * 12 * self.most), &arguments)
    }

    /// Goes back through the refinement that made the queries of `step`, whose gradient is replaced
    /// by that of the queries before. Returns the gradient of the weights before.
    fn refine_back(
        &self,
        pass: &mut Pass,
        step: usize,
        of_queries: &Array<f32>,
        sums: &mut Sums,
    ) -> Result<Array<f32>, Error> {
        let Matched { unit, dim, rows, most, .. } = *self;
        let (Some(memory), Some((projected, _)), Some(of_memory)) =
            (self.memory, &self.tables, &sums.memory)
        else {
            return Err(Error::NoMemory { steps: self.attention.steps });
        };
        let (count, lines) = (pass.count, pass.count * most);
        let layers = &pass.layers[step - 1];
        let arguments = [
            of_queries.into(),
            layers.into(),
            (&pass.queries[step]).into(),
            (&pass.queries[step - 1]).into(),
            pass.norms[step - 1].as_ref().into(),
            dim.into(),
        ];
        // From here on the layers hold their gradients.
        unit.run("refine_back", Unit::rows(lines), &arguments)?;
        let of_layers = self.of_pairs(pass, layers, most * 2 * dim, 2 * dim)?;
        let table = self.of_contexts(pass, projected, rows * 2 * dim, 2 * dim)?;
        let of_weights = unit.empty(lines * rows)?;
        let to = self.of_pairs(pass, &of_weights, most * rows, rows)?;
        let (left, right) = (of_layers.operand, table.operand.turned());
        unit.multiply_at(count, (most, rows, 2 * dim), left, right, 0.0, to.operand)?;
        let (weights, to) = (&pass.weights[step - 1], &of_memory.projected);
        self.add_to_contexts(pass, weights, layers, 2 * dim, to)?;
        if step == 1 {
            // What both layers make of a first query is the same for all its pairs.
            let words = self.queries.values.len() / dim;
            let of_words = unit.add_rows(layers, 2 * dim, self.words_of(pass), words)?;
            let rows = (self.queries.values, words);
            of_memory.add(unit, dim, rows, &of_words)?;
            let to = &sums.queries;
            add_projected(unit, dim, memory, 0, (&of_words, words), to)?;
        } else {
            of_memory.add(unit, dim, (&pass.queries[step - 1], lines), layers)?;
            add_projected(unit, dim, memory, 0, (layers, lines), of_queries)?;
        }
        Ok(of_weights)
    }

    fn finish(&self, sums: Sums) -> Result<Gradients, Error> {
        let Matched { unit, dim, rows, .. } = *self;
        let Sums { padded: of_padded, queries, memory: of_memory } = sums;
        let memory = match (self.memory, of_memory) {
            (Some(memory), Some(OfMemory { projected, weights, bias })) => {
                let lines = self.padded.len() / dim;
                for (gate, weight) in weights.iter().enumerate() {
                    let left = Operand::new(&projected, gate * dim, 2 * dim).turned();
                    let right = Operand::new(&self.padded, 0, dim);
                    let to = Operand::new(weight, dim, 2 * dim);
                    unit.multiply((dim, dim, lines), left, right, 1.0, to)?;
                }
                add_projected(unit, dim, memory, dim, (&projected, lines), &of_padded)?;
                let [linear, gate] = weights;
                let (of_linear, of_gate) = (unit.empty(dim)?, unit.empty(dim)?);
                of_linear.copy_from(0, &bias, 0, dim)?;
                of_gate.copy_from(0, &bias, dim, dim)?;
                Some([linear, of_linear, gate, of_gate])
            }
            _ => None,
        };
        let contexts = if self.contexts.is_uniform() {
            of_padded
        } else {
            let spans = self.contexts.offsets.windows(2).enumerate();
            let places: Vec<u32> = spans
                .flat_map(|(context, span)| {
                    (0..span[1] - span[0]).map(move |row| (context * rows + row) as u32)
                })
                .collect();
            let out = unit.empty(places.len() * dim)?;
            let of = unit.array(&places)?;
            let arguments = [(&out).into(), (&of_padded).into(), (&of).into(), dim.into()];
            unit.run("unpad_rows", Unit::rows(places.len()), &arguments)?;
            out
        };
        Ok(Gradients { contexts, queries, memory })
    }

    /// `(query, padded row)` of all queries of the pairs.
    fn words_of(&self, pass: &Pass) -> impl Iterator<Item = (u32, u32)> + use<> {
        let (offsets, most) = (self.queries.offsets.to_vec(), self.most);
        pass.items.clone().into_iter().enumerate().flat_map(move |(pair, item)| {
            let (first, end) = (offsets[item as usize], offsets[item as usize + 1]);
            (first..end).map(move |word| (word as u32, (pair * most + word - first) as u32))
        })
    }

    /// The matrices of pairs that lie `apart` numbers apart.
    fn of_pairs(
        &self,
        pass: &Pass,
        array: &Array<f32>,
        apart: usize,
        stride: usize,
    ) -> Result<Addressed, Error> {
        self.addressed((0..pass.count).map(|pair| array.at(pair * apart)), stride)
    }

    /// The matrices of the pairs' contexts.
    fn of_contexts(
        &self,
        pass: &Pass,
        array: &Array<f32>,
        apart: usize,
        stride: usize,
    ) -> Result<Addressed, Error> {
        let of = pass.contexts.iter().map(|&context| array.at(context as usize * apart));
        self.addressed(of, stride)
    }

    fn addressed(
        &self,
        pointers: impl Iterator<Item = Pointer>,
        stride: usize,
    ) -> Result<Addressed, Error> {
        let bits: Vec<u64> = pointers.map(Pointer::bits).collect();
        let addresses = self.unit.array(&bits)?;
        let operand = Operand::at::<f32>(addresses.pointer(), stride);
        Ok(Addressed { operand, _addresses: addresses })
    }
}

/// Matrices at addresses, which live as long as this.
struct Addressed {
    operand: Operand,
    _addresses: Array<u64>,
}

impl OfMemory {
    /// Adds the gradients of the half of both weights that applies to queries, and of the biases.
    fn add(
        &self,
        unit: &Unit,
        dim: usize,
        (queries, count): (&Array<f32>, usize),
        of_layers: &Array<f32>,
    ) -> Result<(), Error> {
        for (gate, weight) in self.weights.iter().enumerate() {
            let left = Operand::new(of_layers, gate * dim, 2 * dim).turned();
            let (right, to) = (Operand::new(queries, 0, dim), Operand::new(weight, 0, 2 * dim));
            unit.multiply((dim, dim, count), left, right, 1.0, to)?;
        }
        unit.column_sums(of_layers, 2 * dim, 1.0, &self.bias)
    }
}

/// Rows of items, padded to as many.
fn pad(
    unit: &Unit,
    rows: &Array<f32>,
    offsets: &Array<u32>,
    items: Option<&Array<u32>>,
    (count, most, dim): (usize, usize, usize),
) -> Result<Array<f32>, Error> {
    let out = unit.empty(count * most * dim)?;
    let arguments =
        [(&out).into(), rows.into(), offsets.into(), items.into(), most.into(), dim.into()];
    unit.run("pad_items", Unit::rows(count * most), &arguments)?;
    Ok(out)
}

/// The biases of both layers, for every row.
fn biased(unit: &Unit, memory: MemoryArrays<'_>, count: usize) -> Result<Array<f32>, Error> {
    let [_, linear, _, gate] = memory;
    let bias = unit.empty(linear.len() + gate.len())?;
    bias.copy_from(0, linear, 0, linear.len())?;
    bias.copy_from(linear.len(), gate, 0, gate.len())?;
    unit.repeated(&bias, count)
}

/// What both layers make of rows, by the half of their weights that begins with column `half`.
fn project(
    unit: &Unit,
    (rows, count): (&Array<f32>, usize),
    dim: usize,
    memory: MemoryArrays<'_>,
    half: usize,
    keep: f32,
    out: &Array<f32>,
) -> Result<(), Error> {
    for (gate, weight) in [memory[0], memory[2]].into_iter().enumerate() {
        let (left, right) = (Operand::new(rows, 0, dim), Operand::new(weight, half, 2 * dim));
        let to = Operand::new(out, gate * dim, 2 * dim);
        unit.multiply((count, dim, dim), left, right.turned(), keep, to)?;
    }
    Ok(())
}

/// Adds the gradient of rows whose projection has the gradient `of_layers`.
fn add_projected(
    unit: &Unit,
    dim: usize,
    memory: MemoryArrays<'_>,
    half: usize,
    (of_layers, count): (&Array<f32>, usize),
    out: &Array<f32>,
) -> Result<(), Error> {
    for (gate, weight) in [memory[0], memory[2]].into_iter().enumerate() {
        let left = Operand::new(of_layers, gate * dim, 2 * dim);
        let (right, to) = (Operand::new(weight, half, 2 * dim), Operand::new(out, 0, dim));
        unit.multiply((count, dim, dim), left, right, 1.0, to)?;
    }
    Ok(())
}
