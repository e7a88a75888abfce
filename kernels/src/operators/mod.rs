//! The operators of a DeepSeek-V4 decode step, each with its declared accesses.

mod attention;
mod compress;
mod embedding;
mod hyper_connection;
mod index;
mod kv_store;
mod layout;
mod linear;
mod metadata;
mod mixture;
mod query;
mod rows;
mod sample;
mod tensor;

pub use attention::*;
pub use compress::*;
pub use embedding::*;
pub use hyper_connection::*;
pub use index::*;
pub use kv_store::*;
pub use layout::*;
pub use linear::*;
pub use metadata::*;
pub use mixture::*;
pub use query::*;
pub use sample::*;
pub use tensor::*;
