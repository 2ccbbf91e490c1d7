//! How the sizes of a node's outputs follow from its inputs.

use rten::{Value, ValueView};
use rten_tensor::Tensor;
use rten_tensor::prelude::*;

use super::{NodeInputs, whole};
use crate::model::constants::attribute;

type Shape = Vec<usize>;

impl NodeInputs<'_> {
    /// The sizes of all outputs. `None` if they are not known, or if the inputs do not fit.
    pub(super) fn shapes(&self) -> Option<Vec<Shape>> {
        let kind = self.node.op_type.as_deref()?;
        Some(vec![match kind {
            "Add" | "And" | "Div" | "Equal" | "Greater" | "GreaterOrEqual" | "Less"
            | "LessOrEqual" | "Max" | "Mean" | "Min" | "Mod" | "Mul" | "Or" | "PRelu" | "Pow"
            | "Sub" | "Sum" | "Where" | "Xor" | "BiasGelu" => {
                let shapes =
                    (0..self.inputs.len()).map(|at| self.shape(at)).collect::<Option<Vec<_>>>()?;
                shapes.into_iter().try_fold(Vec::new(), |all, shape| broadcast(&all, shape))?
            }
            "DynamicQuantizeLinear" => return Some(vec![self.shape(0)?.to_vec(), vec![], vec![]]),
            "ArgMax" | "ArgMin" => self.reduced(&[self.whole("axis", 0)])?,
            _ if kind.starts_with("Reduce") => self.reduction()?,
            "Conv" | "ConvInteger" => {
                let (input, weights) = (self.shape(0)?, self.shape(1)?);
                let mut shape = vec![*input.first()?, *weights.first()?];
                shape.extend(self.windows(input.get(2..)?, weights.get(2..)?)?);
                shape
            }
            "MaxPool" | "AveragePool" => {
                let input = self.shape(0)?;
                let kernel = self.list("kernel_shape")?;
                let kernel =
                    kernel.iter().map(|&n| usize::try_from(n).ok()).collect::<Option<Vec<_>>>()?;
                let mut shape = input.get(..2)?.to_vec();
                shape.extend(self.windows(&input[2..], &kernel)?);
                shape
            }
            "GlobalAveragePool" | "GlobalMaxPool" => {
                let input = self.shape(0)?;
                let pixels = input.len().checked_sub(2)?;
                [&input[..2], &vec![1; pixels]].concat()
            }
            "MatMul" | "MatMulInteger" => self.product()?,
            "Gemm" => {
                let (a, b) = (self.shape(0)?, self.shape(1)?);
                let (rows, columns) = (self.whole("transA", 0) != 0, self.whole("transB", 0) == 0);
                vec![*a.get(usize::from(rows))?, *b.get(usize::from(columns))?]
            }
            "Einsum" => self.einsum()?,
            "Concat" => {
                let mut shape = self.shape(0)?.to_vec();
                let axis = self.axis(self.whole("axis", 0), shape.len())?;
                let size = |at| self.shape(at)?.get(axis).copied();
                let sizes = (0..self.inputs.len()).map(size).collect::<Option<Vec<_>>>()?;
                shape[axis] = sizes.iter().try_fold(0usize, |sum, &size| sum.checked_add(size))?;
                shape
            }
            "Split" => return self.parts(),
            "Slice" => self.slice()?,
            "Gather" => {
                let (data, indices) = (self.shape(0)?, self.shape(1)?);
                let axis = self.axis(self.whole("axis", 0), data.len())?;
                [&data[..axis], indices, &data[axis + 1..]].concat()
            }
            "GatherElements" => self.shape(1)?.to_vec(),
            "GatherND" => {
                let (data, indices) = (self.shape(0)?, self.shape(1)?);
                let batch = usize::try_from(self.whole("batch_dims", 0)).ok()?;
                let (&depth, rows) = indices.split_last()?;
                [rows, data.get(batch.checked_add(depth)?..)?].concat()
            }
            "Reshape" => self.reshape()?,
            "Flatten" => {
                let shape = self.shape(0)?;
                let axis = self.whole("axis", 1);
                let axis = if axis < 0 { axis + shape.len() as i64 } else { axis };
                let (rows, columns) = shape.split_at_checked(usize::try_from(axis).ok()?)?;
                vec![rows.iter().product(), columns.iter().product()]
            }
            "Transpose" => {
                let shape = self.shape(0)?;
                match self.list("perm") {
                    Some(order) => {
                        let size = |&at: &i64| shape.get(usize::try_from(at).ok()?).copied();
                        order.iter().map(size).collect::<Option<_>>()?
                    }
                    None => shape.iter().rev().copied().collect(),
                }
            }
            "Squeeze" => {
                let shape = self.shape(0)?;
                let axes = match self.axes(1) {
                    Some(axes) => self.all_axes(&axes?, shape.len())?,
                    None => (0..shape.len()).filter(|&at| shape[at] == 1).collect(),
                };
                let left = shape.iter().enumerate().filter(|(at, _)| !axes.contains(at));
                left.map(|(_, &size)| size).collect()
            }
            "Unsqueeze" => {
                let (shape, axes) = (self.shape(0)?, self.axes(1)??);
                let axes = self.all_axes(&axes, shape.len() + axes.len())?;
                let mut sizes = shape.iter().copied();
                let size = |at| if axes.contains(&at) { Some(1) } else { sizes.next() };
                (0..shape.len() + axes.len()).map(size).collect::<Option<_>>()?
            }
            "Expand" => broadcast(self.shape(0)?, &self.counts(1)?)?,
            "Tile" => {
                let (shape, times) = (self.shape(0)?, self.counts(1)?);
                if times.len() != shape.len() {
                    return None;
                }
                let size = |(size, times): (&usize, &usize)| size.checked_mul(*times);
                shape.iter().zip(&times).map(size).collect::<Option<_>>()?
            }
            "Pad" => self.pad()?,
            "Resize" => self.resize()?,
            "DepthToSpace" => {
                let &[batch, channels, height, width] = self.shape(0)? else { return None };
                let block = usize::try_from(self.whole("blocksize", 0)).ok()?;
                let area = block.checked_mul(block).filter(|&area| area > 0)?;
                vec![batch, channels / area, height.checked_mul(block)?, width.checked_mul(block)?]
            }
            "Shape" => vec![self.own_sizes()?.len()],
            "Size" => Vec::new(),
            "ConstantOfShape" => self.counts(0)?,
            "Range" => {
                let one = |at: usize| match self.input(at)?.value.as_ref()?.as_view() {
                    ValueView::Int32Tensor(tensor) => Some(f64::from(*tensor.iter().next()?)),
                    ValueView::FloatTensor(tensor) => Some(f64::from(*tensor.iter().next()?)),
                    _ => None,
                };
                let steps = ((one(1)? - one(0)?) / one(2)?).ceil();
                vec![if steps.is_nan() { return None } else { steps.max(0.0) as usize }]
            }
            "OneHot" => {
                let mut shape = self.shape(0)?.to_vec();
                let axis = self.axis(self.whole("axis", -1), shape.len() + 1)?;
                shape.insert(axis, *self.counts(1)?.first()?);
                shape
            }
            "TopK" => {
                let mut shape = self.shape(0)?.to_vec();
                let axis = self.axis(self.whole("axis", -1), shape.len())?;
                shape[axis] = *self.counts(1)?.first()?;
                return Some(vec![shape.clone(), shape]);
            }
            // All others keep the sizes of their first input.
            _ => self.shape(0)?.to_vec(),
        }])
    }

    /// Whether it takes several axes as one, as a softmax did before opset 13.
    pub(super) fn is_flattened(&self) -> bool {
        let is_old = matches!(self.node.op_type.as_deref(), Some("Softmax" | "LogSoftmax"))
            && self.version < 13;
        let rank = self.shape(0).map(<[usize]>::len);
        is_old
            && rank
                .is_some_and(|rank| self.axis(self.whole("axis", 1), rank) != rank.checked_sub(1))
    }

    /// The value of a `Shape` or `Size`.
    pub(super) fn own_sizes(&self) -> Option<Value> {
        let shape = self.shape(0)?;
        let number = |size: &usize| i32::try_from(*size).ok();
        if self.node.op_type.as_deref() == Some("Size") {
            let count = shape.iter().product();
            return Some(Tensor::from(number(&count)?).into());
        }
        let end = |name, usual| {
            let at = self.whole(name, usual);
            let at = if at < 0 { at + shape.len() as i64 } else { at };
            at.clamp(0, shape.len() as i64) as usize
        };
        let (start, end) = (end("start", 0), end("end", shape.len() as i64));
        let sizes = shape[start..end.max(start)].iter().map(number).collect::<Option<Vec<_>>>()?;
        Some(Tensor::from(sizes).into())
    }

    fn input(&self, at: usize) -> Option<&super::KnownValue> {
        self.inputs.get(at).copied().flatten()
    }

    fn shape(&self, at: usize) -> Option<&[usize]> {
        self.input(at)?.shape.as_deref()
    }

    /// The whole numbers of an input.
    fn numbers(&self, at: usize) -> Option<Vec<i64>> {
        whole(self.input(at)?.value.as_ref()?)
    }

    /// The sizes that an input states.
    fn counts(&self, at: usize) -> Option<Vec<usize>> {
        self.numbers(at)?.into_iter().map(|n| usize::try_from(n).ok()).collect()
    }

    fn whole(&self, name: &str, usual: i64) -> i64 {
        // Files need not store zeros.
        attribute(self.node, name).map_or(usual, |attribute| attribute.i.unwrap_or(0))
    }

    fn list(&self, name: &str) -> Option<Vec<i64>> {
        attribute(self.node, name).map(|attribute| attribute.ints.clone())
    }

    fn axis(&self, axis: i64, rank: usize) -> Option<usize> {
        let axis = if axis < 0 { axis + rank as i64 } else { axis };
        usize::try_from(axis).ok().filter(|&axis| axis < rank)
    }

    fn all_axes(&self, axes: &[i64], rank: usize) -> Option<Vec<usize>> {
        axes.iter().map(|&axis| self.axis(axis, rank)).collect()
    }

    /// The axes of an attribute, or of an input of newer files. `None` if there are none, `Some(None)`
    /// if they are not known.
    fn axes(&self, at: usize) -> Option<Option<Vec<i64>>> {
        match self.input(at) {
            Some(_) => Some(self.numbers(at)),
            None => self.list("axes").map(Some),
        }
    }

    fn reduced(&self, axes: &[i64]) -> Option<Shape> {
        let shape = self.shape(0)?;
        let axes = self.all_axes(axes, shape.len())?;
        let keeps_them = self.whole("keepdims", 1) != 0;
        let sizes = shape.iter().enumerate().map(|(at, &size)| match axes.contains(&at) {
            true => keeps_them.then_some(1),
            false => Some(size),
        });
        Some(sizes.flatten().collect())
    }

    fn reduction(&self) -> Option<Shape> {
        let rank = self.shape(0)?.len() as i64;
        match self.axes(1).map_or(Some(Vec::new()), |axes| axes)? {
            axes if !axes.is_empty() => self.reduced(&axes),
            _ if self.whole("noop_with_empty_axes", 0) != 0 => Some(self.shape(0)?.to_vec()),
            _ => self.reduced(&(0..rank).collect::<Vec<_>>()),
        }
    }

    /// The sizes after windows over the last axes. The attributes are there: they were filled in.
    fn windows(&self, sizes: &[usize], kernel: &[usize]) -> Option<Vec<usize>> {
        let (axes, one) = (sizes.len(), vec![1; sizes.len()]);
        let strides = self.list("strides").unwrap_or_else(|| one.clone());
        let dilations = self.list("dilations").unwrap_or(one);
        let pads = self.list("pads").unwrap_or_else(|| vec![0; 2 * axes]);
        let auto = attribute(self.node, "auto_pad").and_then(|a| a.s.as_deref()).unwrap_or("");
        let rounds_up = self.whole("ceil_mode", 0) != 0;
        let size = |at: usize| {
            let (size, kernel) =
                (i64::try_from(sizes[at]).ok()?, i64::try_from(*kernel.get(at)?).ok()?);
            let (stride, dilation) = (*strides.get(at)?, *dilations.get(at)?);
            if stride < 1 {
                return None;
            }
            if auto.starts_with("SAME") {
                return usize::try_from(size.checked_add(stride - 1)? / stride).ok();
            }
            let around = pads.get(at)?.checked_add(*pads.get(axes + at)?)?;
            let span = dilation.checked_mul(kernel.checked_sub(1)?)?.checked_add(1)?;
            let room = size.checked_add(around)?.checked_sub(span)?;
            if room < 0 {
                return None;
            }
            let steps =
                if rounds_up { room.checked_add(stride - 1)? / stride } else { room / stride };
            usize::try_from(steps + 1).ok()
        };
        (kernel.len() == axes).then(|| (0..axes).map(size).collect())?
    }

    fn product(&self) -> Option<Shape> {
        let (a, b) = (self.shape(0)?, self.shape(1)?);
        // A vector is a row on the left and a column on the right, and the result has neither.
        let (left, right) = (a.len().checked_sub(2), b.len().checked_sub(2));
        let batch = broadcast(&a[..left.unwrap_or(0)], &b[..right.unwrap_or(0)])?;
        let rows = left.map(|at| a[at]);
        let columns = right.map(|at| b[at + 1]);
        if a.is_empty() || b.is_empty() {
            return None;
        }
        Some(batch.into_iter().chain(rows).chain(columns).collect())
    }

    /// The output, and what the runtime makes on the way to it: with several summed labels it expands
    /// both sides to all of them.
    fn einsum(&self) -> Option<Shape> {
        let equation = attribute(self.node, "equation")?.s.clone()?.replace(' ', "");
        let (terms, output) = equation.split_once("->")?;
        let mut sizes: Vec<(char, usize)> = Vec::new();
        let mut rest: Shape = Vec::new();
        for (at, term) in terms.split(',').enumerate() {
            let shape = self.shape(at)?;
            let letters = term.replace("...", "").chars().count();
            let free = shape.len().checked_sub(letters)?;
            let (before, after) = term.split_once("...").unwrap_or((term, ""));
            let start = before.chars().count();
            let dims = shape.get(start..start + free)?;
            if !term.contains("...") && free > 0 {
                return None;
            }
            rest = broadcast(&rest, dims)?;
            let named = before.chars().zip(shape).chain(after.chars().zip(&shape[start + free..]));
            for (label, &size) in named {
                match sizes.iter_mut().find(|(known, _)| *known == label) {
                    Some((_, known)) => *known = size.max(*known),
                    None => sizes.push((label, size)),
                }
            }
        }
        let summed = sizes.iter().filter(|(label, _)| !output.contains(*label));
        let size = |label: char| Some(sizes.iter().find(|(known, _)| *known == label)?.1);
        let (before, after) = output.split_once("...").unwrap_or((output, ""));
        let before = before.chars().map(size).collect::<Option<Vec<_>>>()?;
        let after = after.chars().map(size).collect::<Option<Vec<_>>>()?;
        let shape = [before, rest, after].concat();
        let is_simple = terms.matches(',').count() < 2;
        let all =
            sizes.iter().map(|(_, size)| (*size as u64).max(1)).try_fold(1u64, u64::checked_mul);
        let is_moderate = summed.count() < 2 || all.is_some_and(|all| all <= super::NUMBERS);
        (is_simple && is_moderate).then_some(shape)
    }

    fn parts(&self) -> Option<Vec<Shape>> {
        let shape = self.shape(0)?;
        let axis = self.axis(self.whole("axis", 0), shape.len())?;
        let count = self.node.output.len();
        let sizes = match self.input(1) {
            Some(_) => self.counts(1)?,
            None => match self.list("split") {
                Some(sizes) => {
                    sizes.iter().map(|&n| usize::try_from(n).ok()).collect::<Option<_>>()?
                }
                None => vec![shape[axis].div_ceil(count.max(1)); count],
            },
        };
        let part = |size: usize| {
            let mut part = shape.to_vec();
            part[axis] = size.min(shape[axis]);
            part
        };
        (sizes.len() == count).then(|| sizes.into_iter().map(part).collect())
    }

    fn slice(&self) -> Option<Shape> {
        let shape = self.shape(0)?;
        let list = |at: usize, name: &str| match self.input(at) {
            Some(_) => self.numbers(at),
            None => self.list(name),
        };
        let (starts, ends) = (list(1, "starts")?, list(2, "ends")?);
        let has_axes = self.input(3).is_some() || self.list("axes").is_some();
        let axes = if has_axes { list(3, "axes")? } else { (0..starts.len() as i64).collect() };
        let steps = match self.input(4) {
            Some(_) => self.numbers(4)?,
            None => vec![1; starts.len()],
        };
        let mut sizes = shape.to_vec();
        for (nth, axis) in self.all_axes(&axes, shape.len())?.into_iter().enumerate() {
            let (size, step) = (shape[axis] as i64, *steps.get(nth)?);
            let from_front = |at: i64| if at < 0 { at + size } else { at };
            let (start, end) = (from_front(*starts.get(nth)?), from_front(*ends.get(nth)?));
            let length = match step {
                0 => return None,
                1.. => (end.clamp(0, size) - start.clamp(0, size) + step - 1) / step,
                _ => (start.clamp(-1, size - 1) - end.clamp(-1, size - 1) - step - 1) / -step,
            };
            sizes[axis] = length.max(0) as usize;
        }
        Some(sizes)
    }

    fn reshape(&self) -> Option<Shape> {
        let shape = self.shape(0)?;
        let keeps_zeros = self.whole("allowzero", 0) != 0;
        let numbers = self.numbers(1)?;
        let size = |(at, &number): (usize, &i64)| match number {
            0 if !keeps_zeros => shape.get(at).copied(),
            // Filled in below.
            -1 => Some(1),
            _ => usize::try_from(number).ok(),
        };
        let mut sizes = numbers.iter().enumerate().map(size).collect::<Option<Shape>>()?;
        if let Some(at) = numbers.iter().position(|&number| number == -1) {
            let others: usize = sizes.iter().try_fold(1usize, |all, &n| all.checked_mul(n))?;
            sizes[at] = shape.iter().product::<usize>().checked_div(others)?;
        }
        Some(sizes)
    }

    fn pad(&self) -> Option<Shape> {
        let mut shape = self.shape(0)?.to_vec();
        let pads = match self.input(1) {
            Some(_) => self.numbers(1)?,
            None => self.list("pads")?,
        };
        let axes = match self.input(3) {
            Some(_) => self.all_axes(&self.numbers(3)?, shape.len())?,
            None => (0..shape.len()).collect(),
        };
        let (before, after) = pads.split_at_checked(axes.len())?;
        for ((&axis, &before), &after) in axes.iter().zip(before).zip(after) {
            let size = i64::try_from(shape[axis]).ok()?.checked_add(before)?.checked_add(after)?;
            shape[axis] = usize::try_from(size).ok()?;
        }
        (after.len() == axes.len()).then_some(shape)
    }

    fn resize(&self) -> Option<Shape> {
        let shape = self.shape(0)?;
        // Older files have an empty list of what they do not use.
        let is_given =
            |at: usize| self.input(at).is_some_and(|known| known.shape.as_deref() != Some(&[0]));
        if is_given(3) {
            return self.counts(3).filter(|sizes| sizes.len() == shape.len());
        }
        match self.input(2)?.value.as_ref()?.as_view() {
            ValueView::FloatTensor(scales) if scales.len() == shape.len() => {
                let size = |(&size, &scale): (&usize, &f32)| (size as f32 * scale).floor() as usize;
                Some(shape.iter().zip(scales.iter()).map(size).collect())
            }
            _ => None,
        }
    }
}

/// The shape of two that are computed number by number.
fn broadcast(one: &[usize], other: &[usize]) -> Option<Shape> {
    let rank = one.len().max(other.len());
    let size = |shape: &[usize], at: usize| match (at + shape.len()).checked_sub(rank) {
        Some(at) => shape[at],
        None => 1,
    };
    let both = |at: usize| match (size(one, at), size(other, at)) {
        (a, b) if a == b || b == 1 => Some(a),
        (1, b) => Some(b),
        _ => None,
    };
    (0..rank).map(both).collect()
}
