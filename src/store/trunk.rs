//! The trunk: every tensor but the routed experts and the embedding, in memory.

use std::collections::HashMap;

use super::error::Error;
use crate::checkpoint::{Checkpoint, Dtype, Extent, LayerTensor, Shape, Tensor};

/// Bytes that one read asks for: small enough that progress moves, large enough for a disk.
const PIECE: usize = 8 << 20;

/// Some rows of a matrix in bf16.
#[derive(Clone, Copy, Debug)]
pub struct RowTile<'a> {
    /// The first row of the tile.
    pub first: usize,
    /// `[rows, columns]`.
    pub weights: &'a [u16],
    /// Columns of the matrix.
    pub columns: usize,
}

#[derive(Debug)]
enum Resident {
    Matrix { weights: Vec<u16>, columns: usize },
    Vector(Vec<f32>),
}

#[derive(Debug)]
pub(super) struct Trunk {
    tensors: HashMap<Tensor, Resident>,
    bytes_read: u64,
    resident_bytes: u64,
}

/// How a trunk tensor is held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// bf16, `[rows, columns]`, as stored.
    Matrix { rows: usize, columns: usize },
    /// f32, of so many elements.
    Vector(usize),
    /// Not held: rows are read on demand.
    OnDemand,
}

impl Form {
    pub(super) fn of(tensor: Tensor, dtype: Dtype, shape: Shape) -> Self {
        use LayerTensor::{AttnResProj, MlpResProj};
        match (tensor, dtype, shape) {
            (Tensor::Embedding, ..) => Self::OnDemand,
            // These are matrices of one row on disk, and vectors to those who use them.
            (
                Tensor::OutputResProj | Tensor::Layer(_, AttnResProj | MlpResProj),
                _,
                Shape::Matrix(rows, columns),
            ) => Self::Vector(rows * columns),
            (_, Dtype::Bf16, Shape::Matrix(rows, columns)) => Self::Matrix { rows, columns },
            (_, _, Shape::Matrix(rows, columns) | Shape::Conv(rows, columns)) => Self::Vector(rows * columns),
            (_, _, Shape::Vector(len) | Shape::AtLeast(len)) => Self::Vector(len),
        }
    }

    /// Bytes in memory.
    pub(super) const fn bytes(self) -> u64 {
        match self {
            Self::Matrix { rows, columns } => rows as u64 * columns as u64 * 2,
            Self::Vector(len) => len as u64 * 4,
            Self::OnDemand => 0,
        }
    }
}

impl Trunk {
    pub(super) fn read(
        checkpoint: &Checkpoint,
        progress: &mut dyn FnMut(u64, u64) -> bool,
    ) -> Result<Self, Error> {
        let parts: Vec<_> = checkpoint
            .trunk()
            .map(|(tensor, dtype, shape, extent)| (tensor, dtype, Form::of(tensor, dtype, shape), extent))
            .filter(|(_, _, form, _)| *form != Form::OnDemand)
            .collect();
        let total = parts.iter().map(|(_, _, _, extent)| extent.len).sum();
        let mut trunk =
            Self { tensors: HashMap::with_capacity(parts.len()), bytes_read: 0, resident_bytes: 0 };
        for (tensor, dtype, form, extent) in parts {
            let mut advance = |bytes: u64| {
                trunk.bytes_read += bytes;
                if progress(trunk.bytes_read, total) { Ok(()) } else { Err(Error::Stopped) }
            };
            let resident = match form {
                Form::OnDemand => continue,
                Form::Matrix { rows, columns } => {
                    let mut weights = vec![0u16; rows * columns];
                    read_pieces(checkpoint, extent, bytemuck::cast_slice_mut(&mut weights), &mut advance)?;
                    if cfg!(target_endian = "big") {
                        for w in &mut weights {
                            *w = u16::from_le(*w);
                        }
                    }
                    Resident::Matrix { weights, columns }
                }
                Form::Vector(len) => {
                    let mut bytes = vec![0; len * dtype.size()];
                    // A padded vector is longer on disk; what counts comes first.
                    let extent = Extent { len: bytes.len() as u64, ..extent };
                    read_pieces(checkpoint, extent, &mut bytes, &mut advance)?;
                    let mut values = vec![0.0; len];
                    match dtype {
                        Dtype::F32 => {
                            for (value, bytes) in values.iter_mut().zip(bytes.as_chunks::<4>().0) {
                                *value = f32::from_le_bytes(*bytes);
                            }
                        }
                        Dtype::Bf16 => widen(&bytes, &mut values),
                        Dtype::U8 => return Err(Error::NoTensor { tensor }),
                    }
                    Resident::Vector(values)
                }
            };
            trunk.resident_bytes += form.bytes();
            trunk.tensors.insert(tensor, resident);
        }
        Ok(trunk)
    }

    pub(super) fn rows<E: From<Error>>(
        &self,
        tensor: Tensor,
        mut visit: impl FnMut(RowTile<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        match self.tensors.get(&tensor) {
            Some(Resident::Matrix { weights, columns }) => {
                visit(RowTile { first: 0, weights, columns: *columns })
            }
            _ => Err(Error::NoTensor { tensor }.into()),
        }
    }

    pub(super) fn matrix(&self, tensor: Tensor) -> Result<&[u16], Error> {
        match self.tensors.get(&tensor) {
            Some(Resident::Matrix { weights, .. }) => Ok(weights),
            _ => Err(Error::NoTensor { tensor }),
        }
    }

    pub(super) fn vector(&self, tensor: Tensor) -> Result<&[f32], Error> {
        match self.tensors.get(&tensor) {
            Some(Resident::Vector(values)) => Ok(values),
            _ => Err(Error::NoTensor { tensor }),
        }
    }

    pub(super) const fn bytes_read(&self) -> u64 {
        self.bytes_read
    }

    pub(super) const fn resident_bytes(&self) -> u64 {
        self.resident_bytes
    }
}

fn read_pieces(
    checkpoint: &Checkpoint,
    extent: Extent,
    buffer: &mut [u8],
    advance: &mut dyn FnMut(u64) -> Result<(), Error>,
) -> Result<(), Error> {
    let mut offset = extent.offset;
    for piece in buffer.chunks_mut(PIECE) {
        let len = piece.len() as u64;
        checkpoint.read(Extent { shard: extent.shard, offset, len }, piece)?;
        offset += len;
        advance(len)?;
    }
    Ok(())
}

/// Where row `row` of a matrix lies whose rows have `row_bytes` bytes.
pub(super) fn row_extent(matrix: Extent, row: u64, row_bytes: usize) -> Option<Extent> {
    let row_bytes = row_bytes as u64;
    let begin = row.checked_mul(row_bytes)?;
    let end = begin.checked_add(row_bytes)?;
    (end <= matrix.len).then_some(Extent {
        shard: matrix.shard,
        offset: matrix.offset + begin,
        len: row_bytes,
    })
}

/// Widens little-endian bf16.
pub(super) fn widen(bytes: &[u8], out: &mut [f32]) {
    for (value, bytes) in out.iter_mut().zip(bytes.as_chunks::<2>().0) {
        *value = f32::from_bits(u32::from(u16::from_le_bytes(*bytes)) << 16);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_outside_the_matrix_have_no_place() {
        let matrix = Extent { shard: 3, offset: 1000, len: 40 };
        assert_eq!(row_extent(matrix, 3, 10), Some(Extent { shard: 3, offset: 1030, len: 10 }));
        assert_eq!(row_extent(matrix, 4, 10), None);
        assert_eq!(row_extent(matrix, u64::MAX, 10), None);
    }
}
