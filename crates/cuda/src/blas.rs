//! Matrix products through cuBLAS, for matrices that lie row by row.

use std::ffi::c_void;

use cudarc::cublas::sys as blas;
use half::{bf16, f16};

use crate::array::{Element, Pointer};
use crate::call::check;
use crate::{Array, Error, Gpu};

/// How products of single precision are computed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Precision {
    /// In single precision.
    #[default]
    Single,
    /// By the matrix units, with factors rounded to 10 bits.
    Tf32,
}

/// Numbers that cuBLAS multiplies.
pub trait Number: Element {
    #[doc(hidden)]
    const TYPE: blas::cudaDataType;
}

impl Number for f32 {
    const TYPE: blas::cudaDataType = blas::cudaDataType::CUDA_R_32F;
}

impl Number for bf16 {
    const TYPE: blas::cudaDataType = blas::cudaDataType::CUDA_R_16BF;
}

impl Number for f16 {
    const TYPE: blas::cudaDataType = blas::cudaDataType::CUDA_R_16F;
}

/// A matrix of a product: where it begins, the distance between its rows and between the matrices of
/// a batch, and whether it is turned.
#[derive(Clone, Copy, Debug)]
pub struct Operand {
    pointer: Pointer,
    stride: usize,
    apart: usize,
    turned: bool,
    of: blas::cudaDataType,
}

impl Operand {
    /// The matrix that begins with the number `first` of an array, whose rows are `stride` numbers
    /// apart.
    pub fn new<T: Number>(array: &Array<T>, first: usize, stride: usize) -> Self {
        Operand { pointer: array.at(first), stride, apart: 0, turned: false, of: T::TYPE }
    }

    /// The same, where those of a batch are `apart` numbers apart.
    pub fn apart(self, apart: usize) -> Self {
        Operand { apart, ..self }
    }

    /// The transposed matrix.
    pub fn turned(self) -> Self {
        Operand { turned: !self.turned, ..self }
    }

    fn operation(&self) -> blas::cublasOperation_t {
        match self.turned {
            true => blas::cublasOperation_t::CUBLAS_OP_T,
            false => blas::cublasOperation_t::CUBLAS_OP_N,
        }
    }
}

/// `out = left right + keep * out`, where `out` is `rows` by `columns` and `depth` is summed over.
#[derive(Clone, Copy, Debug)]
pub struct Product {
    /// Rows of the result.
    pub rows: usize,
    /// Columns of the result.
    pub columns: usize,
    /// Length of the sums.
    pub depth: usize,
    /// The left matrix, rows by depth.
    pub left: Operand,
    /// The right matrix, depth by columns.
    pub right: Operand,
    /// The factor of what is in `out` already.
    pub keep: f32,
    /// The precision of products of single-precision numbers.
    pub precision: Precision,
}

impl Product {
    fn compute(&self) -> blas::cublasComputeType_t {
        match self.precision {
            Precision::Tf32 if self.left.of == f32::TYPE => {
                blas::cublasComputeType_t::CUBLAS_COMPUTE_32F_FAST_TF32
            }
            _ => blas::cublasComputeType_t::CUBLAS_COMPUTE_32F,
        }
    }

    /// What a profile calls it.
    fn name(&self, count: usize) -> String {
        let Product { rows, columns, depth, .. } = self;
        format!("{count} products, {rows} x {columns} x {depth}")
    }

    fn is_empty(&self) -> bool {
        self.rows == 0 || self.columns == 0
    }
}

const ALGORITHM: blas::cublasGemmAlgo_t = blas::cublasGemmAlgo_t::CUBLAS_GEMM_DEFAULT;

impl Gpu {
    /// One product.
    ///
    /// # Errors
    /// If the device refuses.
    pub fn multiply(&self, product: Product, out: Operand) -> Result<(), Error> {
        self.multiply_each(product, out, 1)
    }

    /// `count` products, whose matrices lie as far apart as their operands say.
    ///
    /// # Errors
    /// If the device refuses.
    pub fn multiply_each(&self, product: Product, out: Operand, count: usize) -> Result<(), Error> {
        if product.is_empty() || count == 0 {
            return Ok(());
        }
        let (left, right, one) = (product.left, product.right, 1.0f32);
        // Row by row is column by column of the transposed: the factors change places.
        let handle = self.blas()?;
        // SAFETY: operands lie within their arrays, which the callers in this workspace size.
        let launched = || unsafe {
            blas::cublasGemmStridedBatchedEx(
                handle,
                right.operation(),
                left.operation(),
                product.columns as i32,
                product.rows as i32,
                product.depth as i32,
                (&raw const one).cast(),
                right.pointer.0 as *const c_void,
                right.of,
                right.stride as i32,
                right.apart as i64,
                left.pointer.0 as *const c_void,
                left.of,
                left.stride as i32,
                left.apart as i64,
                (&raw const product.keep).cast(),
                out.pointer.0 as *mut c_void,
                out.of,
                out.stride as i32,
                out.apart as i64,
                count as i32,
                product.compute(),
                ALGORITHM,
            )
        };
        self.profiled(|| product.name(count), || check("a product", launched()))
    }
}
