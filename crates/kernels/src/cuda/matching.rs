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

/// Threads of a block that attends for a pair.
const PAIR_THREADS: u32 = 128;

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
    /// Gradients of raw scores, of weights and of queries, of the step in hand.
    of_raw: Array<f32>,
    of_weights: Array<f32>,
    of_queries: Array<f32>,
    /// Addresses of the matrices of every pair, one buffer after the other.
    addresses: Array<u64>,
}

/// A buffer of pairs.
#[derive(Clone, Copy)]
enum Buffer {
    Contexts,
    Projected,
    OfRaw,
    OfWeights,
    OfQueries,
    Queries(usize),
    Raw(usize),
    Weights(usize),
    Layers(usize),
}

impl Buffer {
    /// Its place among the addresses.
    fn place(self, steps: usize) -> usize {
        match self {
            Buffer::Contexts => 0,
            Buffer::Projected => 1,
            Buffer::OfRaw => 2,
            Buffer::OfWeights => 3,
            Buffer::OfQueries => 4,
            Buffer::Queries(step) => 5 + step,
            Buffer::Raw(step) => 5 + steps + step,
            Buffer::Weights(step) => 5 + 2 * steps + step,
            Buffer::Layers(step) => 5 + 3 * steps + step,
        }
    }
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
            let count = queries.values.len() / dim;
            let of_queries = unit.empty(2 * queries.values.len())?;
            biased(unit, memory, count, &of_queries)?;
            let rows = (queries.values, count);
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
            self.backward(&pass, upstream.at(first), &mut sums)?;
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
        let steps = self.attention.steps;
        let each = |width: usize, count: usize| -> Result<Vec<Array<f32>>, Error> {
            (0..count).map(|_| unit.empty(pairs.len() * most * width)).collect()
        };
        let size = (count, most, dim);
        let mut queries =
            vec![pad(unit, self.queries.values, &self.query_offsets, Some(&named[1]), size)?];
        queries.extend(each(dim, steps - 1)?);
        let mut layers = Vec::new();
        if let Some((_, of_queries)) = &self.tables {
            let (size, items) = ((count, most, 2 * dim), Some(&named[1]));
            layers.push(pad(unit, of_queries, &self.query_offsets, items, size)?);
            layers.extend(each(2 * dim, steps - 2)?);
        }
        let (raw, weights) = (each(rows, steps)?, each(rows, steps)?);
        let [of_raw, of_weights] =
            [unit.empty(count * most * rows)?, unit.empty(count * most * rows)?];
        let of_queries = unit.empty(count * most * dim)?;
        let mut addresses: Vec<u64> = Vec::new();
        let projected = self.tables.as_ref().map_or(&self.padded, |(projected, _)| projected);
        let width = projected.len() / self.padded.len().max(1) * dim;
        for (table, width) in [(&self.padded, dim), (projected, width)] {
            let of = contexts.iter().map(|&context| table.at(context as usize * rows * width));
            addresses.extend(of.map(Pointer::bits));
        }
        let buffers = [(&of_raw, rows), (&of_weights, rows), (&of_queries, dim)].into_iter();
        let buffers = buffers.chain(queries.iter().map(|array| (array, dim)));
        let buffers = buffers.chain(raw.iter().chain(&weights).map(|array| (array, rows)));
        for (array, width) in buffers.chain(layers.iter().map(|array| (array, 2 * dim))) {
            addresses.extend((0..count).map(|pair| array.at(pair * most * width).bits()));
        }
        let pass = Pass {
            count,
            described,
            contexts,
            items,
            firsts: unit.array(&firsts)?,
            members: unit.array(&members)?,
            queries,
            raw,
            weights,
            layers,
            norms: (0..steps)
                .map(|_| {
                    self.attention.normalise_memory.then(|| unit.empty(count * most)).transpose()
                })
                .collect::<Result<_, Error>>()?,
            scores: unit.zeros(count)?,
            of_raw,
            of_weights,
            of_queries,
            addresses: unit.array(&addresses)?,
            _named: named,
        };
        for step in 0..steps {
            let left = self.operand(&pass, Buffer::Queries(step));
            let right = self.operand(&pass, Buffer::Contexts).turned();
            let to = self.operand(&pass, Buffer::Raw(step));
            unit.multiply_at(count, (most, rows, dim), left, right, 0.0, to)?;
            let arguments = [
                (&pass.weights[step]).into(),
                (&pass.scores).into(),
                (&pass.raw[step]).into(),
                (&pass.raw[0]).into(),
                (&pass.described).into(),
                (&self.attending).into(),
            ];
            let shared = 4 * (most * rows + 2 * most);
            let grid = nextpair_cuda::Grid::blocks(count, PAIR_THREADS).shared(shared);
            unit.run("attend_pairs", grid, &arguments)?;
            if step + 1 < steps {
                self.refine(&pass, step)?;
            }
        }
        Ok(pass)
    }

    /// Refines the queries of a step.
    fn refine(&self, pass: &Pass, step: usize) -> Result<(), Error> {
        let Matched { unit, dim, rows, most, .. } = *self;
        let Some(memory) = self.memory else {
            return Err(Error::NoMemory { steps: self.attention.steps });
        };
        let (count, lines, layers) = (pass.count, pass.count * most, &pass.layers[step]);
        if step > 0 {
            biased(unit, memory, lines, layers)?;
            project(unit, (&pass.queries[step], lines), dim, memory, 0, 1.0, layers)?;
        }
        let weights = self.operand(pass, Buffer::Weights(step));
        let table = self.operand(pass, Buffer::Projected);
        let to = self.operand(pass, Buffer::Layers(step));
        unit.multiply_at(count, (most, 2 * dim, rows), weights, table, 1.0, to)?;
        let arguments = [
            (&pass.queries[step + 1]).into(),
            layers.into(),
            (&pass.queries[step]).into(),
            pass.norms[step].as_ref().into(),
            dim.into(),
        ];
        unit.run("refine", Unit::rows(lines), &arguments)
    }

    fn backward(&self, pass: &Pass, upstream: Pointer, sums: &mut Sums) -> Result<(), Error> {
        let Matched { unit, dim, rows, most, .. } = *self;
        let (count, lines) = (pass.count, pass.count * most);
        let of_first = unit.zeros::<f32>(lines * rows)?;
        let of_grams = unit.zeros::<f32>(count * rows * rows)?;
        let radial = unit.zeros::<f32>(lines)?;
        let last = self.attention.steps - 1;
        for step in (0..=last).rev() {
            let arguments = [
                (&pass.of_raw).into(),
                (&of_first).into(),
                (&of_grams).into(),
                (&radial).into(),
                (&pass.weights[step]).into(),
                (&pass.raw[step]).into(),
                (&pass.raw[0]).into(),
                Some(&pass.of_weights).filter(|_| step < last).into(),
                upstream.into(),
                (&pass.described).into(),
                (&self.attending).into(),
            ];
            let shared = 4 * (3 * most * rows + 4 * most);
            let grid = nextpair_cuda::Grid::blocks(count, PAIR_THREADS).shared(shared);
            unit.run("attend_pairs_back", grid, &arguments)?;
            if step == 0 {
                // The first raw scores are also factors of every cosine.
                let length = lines * rows;
                let arguments = [(&pass.of_raw).into(), (&of_first).into(), length.into()];
                unit.run("add", nextpair_cuda::Grid::each(length), &arguments)?;
            }
            self.add_to_contexts(pass, &pass.of_raw, &pass.queries[step], dim, &sums.padded)?;
            // The gradient of the step's queries: from its scores, and from the step after it.
            let left = self.operand(pass, Buffer::OfRaw);
            let right = self.operand(pass, Buffer::Contexts);
            let to = self.operand(pass, Buffer::OfQueries);
            let keep = if step == last { 0.0 } else { 1.0 };
            unit.multiply_at(count, (most, dim, rows), left, right, keep, to)?;
            if step > 0 {
                self.refine_back(pass, step, sums)?;
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
        let of_queries = &pass.of_queries;
        let arguments = [of_queries.into(), first.into(), (&radial).into(), dim.into()];
        unit.run("add_radial", Unit::rows(lines), &arguments)?;
        let words = self.words_of(pass);
        let found = unit.add_rows(of_queries, dim, words, self.queries.values.len() / dim)?;
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

    /// Goes back through the refinement that made the queries of `step`: replaces their gradient by that
    /// of the queries before, and the gradient of weights by that of the weights before.
    fn refine_back(&self, pass: &Pass, step: usize, sums: &mut Sums) -> Result<(), Error> {
        let Matched { unit, dim, rows, most, .. } = *self;
        let (Some(memory), Some(of_memory)) = (self.memory, &sums.memory) else {
            return Err(Error::NoMemory { steps: self.attention.steps });
        };
        let (count, lines) = (pass.count, pass.count * most);
        let (layers, of_queries) = (&pass.layers[step - 1], &pass.of_queries);
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
        let left = self.operand(pass, Buffer::Layers(step - 1));
        let right = self.operand(pass, Buffer::Projected).turned();
        let to = self.operand(pass, Buffer::OfWeights);
        unit.multiply_at(count, (most, rows, 2 * dim), left, right, 0.0, to)?;
        let (weights, to) = (&pass.weights[step - 1], &of_memory.projected);
        self.add_to_contexts(pass, weights, layers, 2 * dim, to)?;
        if step == 1 {
            // What both layers make of a first query is the same for all its pairs.
            let words = self.queries.values.len() / dim;
            let of_words = unit.add_rows(layers, 2 * dim, self.words_of(pass), words)?;
            of_memory.add(unit, dim, (self.queries.values, words), &of_words)?;
            add_projected(unit, dim, memory, 0, (&of_words, words), &sums.queries)
        } else {
            of_memory.add(unit, dim, (&pass.queries[step - 1], lines), layers)?;
            add_projected(unit, dim, memory, 0, (layers, lines), of_queries)
        }
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

    /// The matrices of all pairs in a buffer.
    fn operand(&self, pass: &Pass, buffer: Buffer) -> Operand {
        let stride = match buffer {
            Buffer::Contexts | Buffer::Queries(_) | Buffer::OfQueries => self.dim,
            Buffer::Projected | Buffer::Layers(_) => 2 * self.dim,
            Buffer::Raw(_) | Buffer::Weights(_) | Buffer::OfRaw | Buffer::OfWeights => self.rows,
        };
        let first = buffer.place(self.attention.steps) * pass.count;
        Operand::at::<f32>(pass.addresses.at(first), stride)
    }
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

/// Writes the biases of both layers to every row.
fn biased(
    unit: &Unit,
    memory: MemoryArrays<'_>,
    count: usize,
    out: &Array<f32>,
) -> Result<(), Error> {
    let [_, linear, _, gate] = memory;
    let bias = unit.empty(linear.len() + gate.len())?;
    bias.copy_from(0, linear, 0, linear.len())?;
    bias.copy_from(linear.len(), gate, 0, gate.len())?;
    let length = count * bias.len();
    let arguments = [out.into(), (&bias).into(), bias.len().into(), length.into()];
    unit.run("repeat_row", nextpair_cuda::Grid::each(length), &arguments)
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
