//! Compact blocks between download and scan.

use std::{collections::BTreeMap, convert::Infallible, sync::Mutex};

use async_trait::async_trait;
use zcash_client_backend::{
    data_api::{
        chain::{BlockCache, BlockSource, error::Error},
        scanning::ScanRange,
    },
    proto::compact_formats::CompactBlock,
};
use zcash_protocol::consensus::BlockHeight;

/// Blocks by height, in memory: the chains of the tests are short.
#[derive(Default)]
pub struct MemoryCache(Mutex<BTreeMap<u64, CompactBlock>>);

impl MemoryCache {
    fn copy(&self, from: u64, limit: usize) -> Vec<CompactBlock> {
        let blocks = self.0.lock().expect("no holder of the lock panics");
        blocks
            .range(from..)
            .take(limit)
            .map(|(_, block)| block.clone())
            .collect()
    }
}

impl BlockSource for MemoryCache {
    type Error = Infallible;

    fn with_blocks<F, WalletErrT>(
        &self,
        from_height: Option<BlockHeight>,
        limit: Option<usize>,
        mut with_block: F,
    ) -> Result<(), Error<WalletErrT, Infallible>>
    where
        F: FnMut(CompactBlock) -> Result<(), Error<WalletErrT, Infallible>>,
    {
        let from = from_height.map_or(0, u64::from);
        self.copy(from, limit.unwrap_or(usize::MAX))
            .into_iter()
            .try_for_each(&mut with_block)
    }
}

#[async_trait]
impl BlockCache for MemoryCache {
    fn get_tip_height(&self, range: Option<&ScanRange>) -> Result<Option<BlockHeight>, Infallible> {
        let blocks = self.0.lock().expect("no holder of the lock panics");
        let mut heights = blocks.values().map(CompactBlock::height).rev();
        Ok(heights.find(|h| range.is_none_or(|r| r.block_range().contains(h))))
    }

    async fn read(&self, range: &ScanRange) -> Result<Vec<CompactBlock>, Infallible> {
        Ok(self.copy(range.block_range().start.into(), range.len()))
    }

    async fn insert(&self, compact_blocks: Vec<CompactBlock>) -> Result<(), Infallible> {
        let mut blocks = self.0.lock().expect("no holder of the lock panics");
        blocks.extend(
            compact_blocks
                .into_iter()
                .map(|block| (block.height, block)),
        );
        Ok(())
    }

    async fn delete(&self, range: ScanRange) -> Result<(), Infallible> {
        let mut blocks = self.0.lock().expect("no holder of the lock panics");
        blocks.retain(|_, block| !range.block_range().contains(&block.height()));
        Ok(())
    }
}
