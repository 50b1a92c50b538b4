//! What the wallet asks a lightwallet server.

use anyhow::{Context, Result, anyhow, bail};
use serde_json::{Value, json};
use tonic::{Code, transport::Channel};
use zcash_client_backend::{
    data_api::{
        TransactionDataRequest, TransactionStatus, TransactionsInvolvingAddress, WalletRead,
        WalletWrite, wallet::decrypt_and_store_transaction,
    },
    proto::service::{
        BlockId, BlockRange, ChainSpec, Empty, RawTransaction, TransparentAddressBlockFilter,
        TreeState, TxFilter, compact_tx_streamer_client::CompactTxStreamerClient,
    },
    sync,
};
use zcash_keys::encoding::AddressCodec;
use zcash_primitives::transaction::Transaction;
use zcash_protocol::{
    TxId,
    consensus::{BlockHeight, BranchId},
};

use crate::{cache::MemoryCache, wallet::Wallet};

/// Blocks asked for at once: few, so that even a short chain takes several ranges.
const BATCH: u32 = 16;

pub struct Server(CompactTxStreamerClient<Channel>);

impl Server {
    pub async fn connect(url: &str) -> Result<Self> {
        let channel = Channel::from_shared(url.to_owned())?
            .connect()
            .await
            .with_context(|| format!("connect to {url}"))?;
        Ok(Self(CompactTxStreamerClient::new(channel)))
    }

    pub async fn tree_state(&mut self, height: u64) -> Result<TreeState> {
        let id = BlockId {
            height,
            hash: vec![],
        };
        Ok(self
            .0
            .get_tree_state(id)
            .await
            .context("GetTreeState")?
            .into_inner())
    }

    /// Brings the wallet to the server's tip, as every wallet on these libraries does: the library scans the blocks, then the wallet
    /// answers what the database wants to know of single transactions and addresses.
    pub async fn sync(&mut self, wallet: &mut Wallet) -> Result<()> {
        let network = wallet.network;
        sync::run(
            &mut self.0,
            &network,
            &MemoryCache::default(),
            &mut wallet.db,
            BATCH,
        )
        .await
        .map_err(|e| anyhow!("sync: {e}"))?;
        for request in wallet.db.transaction_data_requests()? {
            match request {
                TransactionDataRequest::GetStatus(txid) => {
                    let status = self.transaction(wallet, txid).await?.1;
                    wallet.db.set_transaction_status(txid, status)?;
                }
                TransactionDataRequest::Enhancement(txid) => {
                    match self.transaction(wallet, txid).await? {
                        (Some(tx), status) => store(wallet, &tx, status)?,
                        (None, status) => wallet.db.set_transaction_status(txid, status)?,
                    }
                }
                TransactionDataRequest::TransactionsInvolvingAddress(about) => {
                    self.address(wallet, about).await?;
                }
            }
        }
        Ok(())
    }

    /// Asks for a transaction and where it stands.
    pub async fn transaction(
        &mut self,
        wallet: &Wallet,
        txid: TxId,
    ) -> Result<(Option<Transaction>, TransactionStatus)> {
        let filter = TxFilter {
            block: None,
            index: 0,
            hash: txid.as_ref().to_vec(),
        };
        match self.0.get_transaction(filter).await {
            Ok(reply) => {
                let raw = reply.into_inner();
                let status = status(raw.height)?;
                Ok((Some(parse(wallet, &raw)?), status))
            }
            Err(e) if e.code() == Code::NotFound => {
                Ok((None, TransactionStatus::TxidNotRecognized))
            }
            Err(e) => Err(e).with_context(|| format!("GetTransaction {txid}")),
        }
    }

    /// Stores every transaction of an address that the database asked for.
    async fn address(
        &mut self,
        wallet: &mut Wallet,
        about: TransactionsInvolvingAddress,
    ) -> Result<()> {
        let tip = wallet
            .db
            .chain_height()?
            .context("the chain height is unknown")?;
        let last = about
            .block_range_end()
            .map_or(tip, |end| (end - 1).min(tip));
        let id = |height: BlockHeight| {
            Some(BlockId {
                height: height.into(),
                hash: vec![],
            })
        };
        let filter = TransparentAddressBlockFilter {
            address: about.address().encode(&wallet.network),
            range: Some(BlockRange {
                start: id(about.block_range_start()),
                end: id(last),
                pool_types: vec![],
            }),
        };
        let mut stream = self
            .0
            .get_taddress_txids(filter)
            .await
            .context("GetTaddressTxids")?
            .into_inner();
        while let Some(raw) = stream.message().await.context("GetTaddressTxids")? {
            let (tx, status) = (parse(wallet, &raw)?, status(raw.height)?);
            store(wallet, &tx, status)?;
        }
        wallet.db.notify_address_checked(about, last)?;
        Ok(())
    }

    /// Hands a transaction to the network.
    pub async fn send(&mut self, tx: &Transaction) -> Result<()> {
        let mut data = Vec::new();
        tx.write(&mut data)?;
        let reply = self
            .0
            .send_transaction(RawTransaction { data, height: 0 })
            .await
            .context("SendTransaction")?
            .into_inner();
        if reply.error_code != 0 {
            bail!(
                "SendTransaction: refused with {}: {}",
                reply.error_code,
                reply.error_message
            );
        }
        // On success the text is the transaction's id; some servers quote it.
        let (got, want) = (reply.error_message.trim_matches('"'), tx.txid().to_string());
        if got != want {
            bail!("SendTransaction: the server says {got:?}, the transaction is {want}");
        }
        Ok(())
    }

    /// Follows the mempool until the server ends the stream at the next block. Every transaction is stored, as a wallet would, and
    /// reported; the first report says that the stream is open.
    pub async fn mempool(&mut self, wallet: &mut Wallet, report: impl Fn(Value)) -> Result<()> {
        let mut stream = self
            .0
            .get_mempool_stream(Empty {})
            .await
            .context("GetMempoolStream")?
            .into_inner();
        report(json!({ "event": "open" }));
        while let Some(raw) = stream.message().await.context("GetMempoolStream")? {
            let tx = parse(wallet, &raw)?;
            decrypt_and_store_transaction(&wallet.network, &mut wallet.db, &tx, None)?;
            let mut seen = wallet.read(&tx)?;
            seen["event"] = "transaction".into();
            seen["height"] = raw.height.into();
            report(seen);
        }
        report(json!({ "event": "end" }));
        Ok(())
    }

    /// Returns what the server says of itself.
    pub async fn info(&mut self) -> Result<Value> {
        let info = self
            .0
            .get_lightd_info(Empty {})
            .await
            .context("GetLightdInfo")?
            .into_inner();
        let tip = self
            .0
            .get_latest_block(ChainSpec {})
            .await
            .context("GetLatestBlock")?
            .into_inner();
        Ok(json!({ "vendor": info.vendor, "branch": info.consensus_branch_id, "tip": tip.height }))
    }
}

/// Parses a transaction. From version 5 on it names its branch itself, so that the height matters for version 4 alone.
fn parse(wallet: &Wallet, raw: &RawTransaction) -> Result<Transaction> {
    let height = match status(raw.height)? {
        TransactionStatus::Mined(height) => height,
        _ => {
            wallet
                .db
                .chain_height()?
                .context("the chain height is unknown")?
                + 1
        }
    };
    Ok(Transaction::read(
        &raw.data[..],
        BranchId::for_height(&wallet.network, height),
    )?)
}

/// Reads the height beside a raw transaction: 0 in the mempool, all ones on a side chain.
fn status(height: u64) -> Result<TransactionStatus> {
    match height {
        0 | u64::MAX => Ok(TransactionStatus::NotInMainChain),
        mined => Ok(TransactionStatus::Mined(BlockHeight::try_from(mined)?)),
    }
}

fn store(wallet: &mut Wallet, tx: &Transaction, status: TransactionStatus) -> Result<()> {
    let mined = match status {
        TransactionStatus::Mined(height) => Some(height),
        _ => None,
    };
    decrypt_and_store_transaction(&wallet.network, &mut wallet.db, tx, mined)?;
    if mined.is_none() {
        wallet.db.set_transaction_status(tx.txid(), status)?;
    }
    Ok(())
}
