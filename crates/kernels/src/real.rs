//! Numbers for formulas: plain doubles, or doubles that record how they were computed, from which
//! gradients follow automatically.

use std::cell::RefCell;
use std::ops::{Add, Div, Mul, Neg, Sub};

/// A real number in a formula.
pub trait Real:
    Copy
    + Add<Output = Self>
    + Sub<Output = Self>
    + Mul<Output = Self>
    + Div<Output = Self>
    + Neg<Output = Self>
{
    /// A constant.
    fn of(value: f64) -> Self;
    /// Its value.
    fn value(self) -> f64;
    /// The result of a function of this number, given its value and its derivative there.
    fn map(self, value: f64, derivative: f64) -> Self;

    /// The square root, with a derivative of 0 at 0, where its own is infinite.
    fn sqrt(self) -> Self {
        let root = self.value().sqrt();
        self.map(root, if root > 0.0 { 0.5 / root } else { 0.0 })
    }

    /// The exponential function.
    fn exp(self) -> Self {
        self.map(self.value().exp(), self.value().exp())
    }

    /// The natural logarithm.
    fn ln(self) -> Self {
        self.map(self.value().ln(), 1.0 / self.value())
    }

    /// The hyperbolic tangent.
    fn tanh(self) -> Self {
        let tanh = self.value().tanh();
        self.map(tanh, 1.0 - tanh * tanh)
    }

    /// The logistic function.
    fn sigmoid(self) -> Self {
        let sigmoid = 1.0 / (1.0 + (-self.value()).exp());
        self.map(sigmoid, sigmoid * (1.0 - sigmoid))
    }

    /// `max(0, x)`, with a derivative of 1 at 0, as in the published models.
    fn relu(self) -> Self {
        if self.value() >= 0.0 { self } else { Self::of(0.0) }
    }

    /// The absolute value, with a derivative of 0 at 0.
    fn abs(self) -> Self {
        let value = self.value();
        self.map(value.abs(), if value == 0.0 { 0.0 } else { value.signum() })
    }

    /// The larger of two numbers; `self` if they are equal.
    fn max(self, other: Self) -> Self {
        if other.value() > self.value() { other } else { self }
    }

    /// The dot product.
    fn dot(x: &[Self], y: &[Self]) -> Self {
        x.iter().zip(y).fold(Self::of(0.0), |sum, (&x, &y)| sum + x * y)
    }

    /// The sum.
    fn sum(all: impl IntoIterator<Item = Self>) -> Self {
        all.into_iter().fold(Self::of(0.0), |sum, x| sum + x)
    }
}

impl Real for f64 {
    fn of(value: f64) -> Self {
        value
    }

    fn value(self) -> f64 {
        self
    }

    fn map(self, value: f64, _derivative: f64) -> Self {
        value
    }
}

/// A number that records how it was computed on the tape of its thread.
#[derive(Clone, Copy, Debug)]
pub struct Variable {
    value: f64,
    /// Its position on the tape; constants have none.
    place: Option<u32>,
}

/// The inputs of a number: positions on the tape, and derivatives.
type Sources = [(u32, f64); 2];

/// A placeholder for no input.
const NOTHING: (u32, f64) = (0, 0.0);

thread_local! {
    static TAPE: RefCell<Vec<Sources>> = const { RefCell::new(Vec::new()) };
}

impl Variable {
    fn noted(value: f64, sources: Sources) -> Self {
        TAPE.with_borrow_mut(|tape| {
            tape.push(sources);
            let place = u32::try_from(tape.len() - 1).expect("formulas of references are small");
            Variable { value, place: Some(place) }
        })
    }

    fn of_two(self, other: Self, value: f64, by_self: f64, by_other: f64) -> Self {
        let source = |place: Option<u32>, by: f64| place.map_or(NOTHING, |place| (place, by));
        match (self.place, other.place) {
            (None, None) => Self::of(value),
            (own, others) => Self::noted(value, [source(own, by_self), source(others, by_other)]),
        }
    }
}

impl Real for Variable {
    fn of(value: f64) -> Self {
        Variable { value, place: None }
    }

    fn value(self) -> f64 {
        self.value
    }

    fn map(self, value: f64, derivative: f64) -> Self {
        match self.place {
            None => Self::of(value),
            Some(place) => Self::noted(value, [(place, derivative), NOTHING]),
        }
    }
}

impl Add for Variable {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        self.of_two(other, self.value + other.value, 1.0, 1.0)
    }
}

impl Sub for Variable {
    type Output = Self;
    fn sub(self, other: Self) -> Self {
        self.of_two(other, self.value - other.value, 1.0, -1.0)
    }
}

impl Mul for Variable {
    type Output = Self;
    fn mul(self, other: Self) -> Self {
        self.of_two(other, self.value * other.value, other.value, self.value)
    }
}

impl Div for Variable {
    type Output = Self;
    fn div(self, other: Self) -> Self {
        let value = self.value / other.value;
        self.of_two(other, value, 1.0 / other.value, -value / other.value)
    }
}

impl Neg for Variable {
    type Output = Self;
    fn neg(self) -> Self {
        self.map(-self.value, -1.0)
    }
}

/// The derivatives of `upstream . formula(inputs)` by every input.
pub(crate) fn derivatives(
    inputs: &[&[f64]],
    upstream: &[f64],
    formula: impl FnOnce(&[&[Variable]]) -> Vec<Variable>,
) -> Vec<Vec<f64>> {
    TAPE.with_borrow_mut(Vec::clear);
    // The inputs come first, each with its own position that depends on nothing.
    let variable = |&value: &f64| Variable::noted(value, [NOTHING; 2]);
    let variables: Vec<Vec<Variable>> =
        inputs.iter().map(|input| input.iter().map(variable).collect()).collect();
    let results = formula(&variables.iter().map(Vec::as_slice).collect::<Vec<_>>());
    let mut slopes = TAPE.with_borrow(|tape| vec![0.0; tape.len()]);
    for (result, upstream) in results.iter().zip(upstream) {
        if let Some(place) = result.place {
            slopes[place as usize] += upstream;
        }
    }
    let first: usize = inputs.iter().map(|input| input.len()).sum();
    TAPE.with_borrow(|tape| {
        for place in (first..tape.len()).rev() {
            for (source, by) in tape[place] {
                // A placeholder adds zero to the first input.
                slopes[source as usize] += slopes[place] * by;
            }
        }
    });
    TAPE.with_borrow_mut(|tape| *tape = Vec::new());
    let mut slopes = slopes.into_iter();
    inputs.iter().map(|input| slopes.by_ref().take(input.len()).collect()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn formula<R: Real>(inputs: &[&[R]]) -> Vec<R> {
        let (x, y) = (inputs[0], inputs[1]);
        let all = R::dot(x, y).tanh() + x[0].exp() / (y[1].abs() + R::of(1.0));
        let more = (x[1] * x[1] + y[0]).sqrt().sigmoid() - x[1].relu().max(y[1]).abs();
        vec![all * more, -more, (x[0] * x[0] + R::of(0.1)).ln()]
    }

    #[test]
    fn derivatives_are_limits_of_differences() {
        let (x, y, upstream) = ([0.3, 0.8], [0.7, -0.4], [1.5, -0.5, 2.0]);
        let found = derivatives(&[&x, &y], &upstream, formula);
        let value = |x: &[f64], y: &[f64]| f64::dot(&formula(&[x, y]), &upstream);
        const STEP: f64 = 1e-6;
        for (input, found) in found.iter().enumerate() {
            for at in 0..2 {
                let moved = |step: f64| {
                    let (mut x, mut y) = (x, y);
                    [&mut x, &mut y][input][at] += step;
                    value(&x, &y)
                };
                let slope = (moved(STEP) - moved(-STEP)) / (2.0 * STEP);
                assert!((found[at] - slope).abs() < 1e-8, "{input} {at}: {} {slope}", found[at]);
            }
        }
    }
}
