//! Quantised products of a graph, run in our own code where the CPU multiplies bytes.
//!
//! Tools that quantise encoders write a layer as `DynamicQuantizeLinear`, `MatMulInteger`, `Cast`,
//! `Mul` by the scales and `Add` of the bias. The runtime spends most of an encoder's time in the
//! second; here all from there on are one pass ([`ByteWeights`]) with the same bits.

use std::collections::HashMap;

use nextpair_kernels::{ByteWeights, Scaling};
use rten::ValueView;
use rten_onnx::onnx::{DataType, NodeProto, TensorProto};
use rten_tensor::Tensor;
use rten_tensor::prelude::*;

use super::constants::{Constants, numbers, operator};

/// Most products side by side; layers of attention have three. Every node is compared with all.
const MOST_PRODUCTS: usize = 64;

/// The value that each node makes.
pub(super) type Producers<'a> = HashMap<&'a str, &'a NodeProto>;

/// Consecutive products.
#[derive(Debug, Default)]
pub(super) struct Products {
    inputs: Vec<String>,
    products: Vec<Product>,
    /// Scales that are computed here, for products that do not have them yet.
    scales: Vec<String>,
}

#[derive(Debug)]
struct Product {
    weights: ByteWeights,
    /// The scales of the weights, one for all columns or one for each.
    scales: Vec<f32>,
    bias: Vec<f32>,
    /// The left side, its zero point and its scale, among the inputs.
    from: [usize; 3],
    /// The name of that scale.
    scale: String,
    output: String,
    stage: Stage,
}

/// How far the nodes of a product have come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Whole,
    Cast,
    Scaled,
    Biased,
}

impl Products {
    /// Takes a node as a product or as the next step of one. `None` if it is neither.
    pub(super) fn take(
        &mut self,
        node: &NodeProto,
        constants: &Constants<'_>,
        readers: &HashMap<&str, usize>,
        makers: &Producers<'_>,
    ) -> Option<()> {
        let name = operator(node)?;
        if name == "MatMulInteger" {
            if self.products.len() == MOST_PRODUCTS {
                return None;
            }
            let (product, from) = Product::read(node, constants, makers)?;
            let from = from.each_ref().map(|name| self.input(name));
            self.products.push(Product { from, ..product });
            return Some(());
        }
        let made = |product: &Product| node.input.contains(&product.output);
        let Some(product) = self.products.iter_mut().find(|product| made(product)) else {
            let (name, mut products) = (&node.output[0], self.products.iter());
            let is_read_once = readers.get(name.as_str()) == Some(&1);
            products.find(|p| is_read_once && p.scales_of(node, constants).is_some())?;
            self.scales.push(name.clone());
            return Some(());
        };
        if readers.get(product.output.as_str()) != Some(&1) {
            return None;
        }
        let other = node.input.iter().find(|input| **input != product.output);
        product.stage = match (product.stage, name) {
            (Stage::Whole, "Cast") if is_to_float(node) => Stage::Cast,
            (Stage::Cast, "Mul") => {
                let name = other?;
                product.scales = product.scales_of(makers.get(name.as_str())?, constants)?;
                self.scales.retain(|scales| scales != name);
                Stage::Scaled
            }
            (Stage::Scaled, "Add") => {
                let bias = constants.weights.get(other?.as_str())?;
                if bias.dims.len() != 1 || bias.dims[0] != product.bias.len() as i64 {
                    return None;
                }
                let columns = product.bias.len();
                product.bias = numbers(bias).filter(|bias| bias.len() == columns)?;
                Stage::Biased
            }
            _ => return None,
        };
        product.output = node.output[0].clone();
        Some(())
    }

    /// Whether every product has come to an end that others can read.
    pub(super) fn are_complete(&self) -> bool {
        let is_complete = |stage| matches!(stage, Stage::Scaled | Stage::Biased);
        self.scales.is_empty() && self.products.iter().all(|product| is_complete(product.stage))
    }

    /// The names of all values that are read, each once.
    pub(super) fn inputs(&self) -> impl Iterator<Item = &str> {
        self.inputs.iter().map(String::as_str)
    }

    pub(super) fn outputs(&self) -> impl Iterator<Item = &str> {
        self.products.iter().map(|product| product.output.as_str())
    }

    /// Computes all products of the values of the inputs, in their order.
    pub(super) fn run(&self, inputs: &[ValueView<'_>]) -> Result<Vec<Tensor<f32>>, String> {
        let result = |product: &Product| {
            let misfit = || format!("'{}': its sides do not fit", product.output);
            product.run(inputs).ok_or_else(misfit)
        };
        self.products.iter().map(result).collect()
    }

    /// The place of a name among the inputs.
    fn input(&mut self, name: &str) -> usize {
        let known = self.inputs.iter().position(|input| input == name);
        known.unwrap_or_else(|| {
            self.inputs.push(name.to_owned());
            self.inputs.len() - 1
        })
    }
}

impl Product {
    /// The product of a node, and the names of what it reads. `None` unless the left side is
    /// quantised in the usual way, and the weights are stored and symmetric.
    fn read<'a>(
        node: &NodeProto,
        constants: &Constants<'_>,
        makers: &Producers<'a>,
    ) -> Option<(Self, [&'a str; 3])> {
        let [codes, weights, zero, rest @ ..] = &node.input[..] else { return None };
        let weights = constants.weights.get(weights.as_str())?;
        let [depth, columns] = weights.dims[..] else { return None };
        let (depth, columns) = (usize::try_from(depth).ok()?, usize::try_from(columns).ok()?);
        let quantiser = makers.get(codes.as_str())?;
        let [their_codes, scale, their_zero] = &quantiser.output[..] else { return None };
        let is_usual = quantiser.op_type.as_deref() == Some("DynamicQuantizeLinear")
            && (codes, zero) == (their_codes, their_zero);
        let zeros = match rest.first().filter(|name| !name.is_empty()) {
            Some(name) => bytes(constants.weights.get(name.as_str())?)?,
            None => Vec::new(),
        };
        let codes_of_weights = bytes(weights)?;
        if !is_usual
            || zeros.iter().any(|&zero| zero != 0)
            || depth.checked_mul(columns)? != codes_of_weights.len()
            || codes_of_weights.is_empty()
        {
            return None;
        }
        constants.take_room(columns, depth)?;
        let product = Product {
            weights: ByteWeights::new(depth, columns, &codes_of_weights)?,
            scales: Vec::new(),
            bias: vec![0.0; columns],
            from: [0; 3],
            scale: scale.clone(),
            output: node.output[0].clone(),
            stage: Stage::Whole,
        };
        Some((product, [their_codes, their_zero, scale]))
    }

    /// The stored scales, if a node multiplies them with the left side's scale.
    fn scales_of(&self, node: &NodeProto, constants: &Constants<'_>) -> Option<Vec<f32>> {
        let stored = match &node.input[..] {
            [left, right] if *left == self.scale => right,
            [left, right] if *right == self.scale => left,
            _ => return None,
        };
        let stored = constants.weights.get(stored.as_str())?;
        let fits = match stored.dims[..] {
            [] | [1] => true,
            [count] => count == self.bias.len() as i64,
            _ => false,
        };
        let scales = numbers(stored).filter(|scales| [1, self.bias.len()].contains(&scales.len()));
        scales.filter(|_| fits && operator(node) == Some("Mul"))
    }

    fn run(&self, inputs: &[ValueView<'_>]) -> Option<Tensor<f32>> {
        let [
            ValueView::UInt8Tensor(codes),
            ValueView::UInt8Tensor(zero),
            ValueView::FloatTensor(scale),
        ] = self.from.map(|at| &inputs[at])
        else {
            return None;
        };
        let (zero, scale) = (*zero.iter().next()?, *scale.iter().next()?);
        let codes = codes.to_contiguous();
        let mut shape = codes.shape().to_vec();
        if shape.pop() != Some(self.weights.depth()) {
            return None;
        }
        let columns = self.weights.columns();
        shape.push(columns);
        let scales = self.scales.iter().cycle().take(columns).map(|stored| scale * stored);
        let scaling = Scaling { scales: &scales.collect::<Vec<_>>(), bias: &self.bias };
        let mut numbers = vec![0.0; shape.iter().product()];
        self.weights.multiply(codes.data(), zero, scaling, &mut numbers);
        Some(Tensor::from_data(&shape, numbers))
    }
}

fn is_to_float(node: &NodeProto) -> bool {
    let float = Some(DataType::FLOAT.0 as i64);
    node.attribute.iter().any(|a| a.name.as_deref() == Some("to") && a.i == float)
}

fn bytes(tensor: &TensorProto) -> Option<Vec<i8>> {
    if tensor.data_type != Some(DataType::INT8) {
        return None;
    }
    Some(match &tensor.raw_data {
        Some(bytes) => bytes.borrow().iter().map(|&byte| byte as i8).collect(),
        None => tensor.int32_data.iter().map(|&number| number as i8).collect(),
    })
}
