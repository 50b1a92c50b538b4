//! One account of one seed, in a SQLite database: what needs no server.

use std::{collections::HashMap, path::Path};

use anyhow::{Context, Result, anyhow};
use rand::{rand_core::UnwrapErr, rngs::SysRng};
use secrecy::{ExposeSecret, SecretVec};
use serde_json::{Value, json};
use zcash_client_backend::{
    data_api::{
        AccountBirthday, Balance, WalletRead, WalletWrite,
        wallet::{
            ConfirmationsPolicy, SpendingKeys, create_proposed_transactions,
            propose_standard_transfer_to_address,
        },
    },
    decrypt_transaction,
    fees::StandardFeeRule,
    proto::service::TreeState,
    wallet::OvkPolicy,
};
use zcash_client_sqlite::{
    AccountUuid, WalletDb, util::SystemClock, wallet::commitment_tree, wallet::init::init_wallet_db,
};
use zcash_keys::{
    address::Address,
    encoding::AddressCodec,
    keys::{
        ReceiverRequirement::Require, UnifiedAddressRequest, UnifiedFullViewingKey,
        UnifiedSpendingKey,
    },
};
use zcash_primitives::transaction::Transaction;
use zcash_proofs::prover::LocalTxProver;
use zcash_protocol::{
    ShieldedPool, TxId,
    local_consensus::LocalNetwork,
    memo::{Memo, MemoBytes},
    value::Zatoshis,
};

pub type Db = WalletDb<rusqlite::Connection, LocalNetwork, SystemClock, UnwrapErr<SysRng>>;

/// The system's randomness, whose failure nobody could handle.
const RNG: UnwrapErr<SysRng> = UnwrapErr(SysRng);

pub struct Wallet {
    pub network: LocalNetwork,
    pub db: Db,
    seed: SecretVec<u8>,
}

/// Derives the account's spending key.
fn spending_key(network: &LocalNetwork, seed: &SecretVec<u8>) -> Result<UnifiedSpendingKey> {
    UnifiedSpendingKey::from_seed(network, seed.expose_secret(), zip32::AccountId::ZERO)
        .map_err(|e| anyhow!("derive the spending key: {e:?}"))
}

/// Returns the addresses that blocks may pay, one for each pool, and the unified one.
pub fn addresses(network: &LocalNetwork, seed: &SecretVec<u8>) -> Result<Value> {
    let key = spending_key(network, seed)?.to_unified_full_viewing_key();
    let (unified, _) = key.default_address(
        UnifiedAddressRequest::custom(Require, Require, Require)
            .map_err(|e| anyhow!("a unified address of every receiver: {e:?}"))?,
    )?;
    let (orchard, _) = key.default_address(UnifiedAddressRequest::ORCHARD)?;
    let sapling = unified
        .sapling()
        .context("the address has no Sapling receiver")?;
    let transparent = unified
        .transparent()
        .context("the address has no transparent receiver")?;
    Ok(json!({
        "unified": unified.encode(network),
        "orchard": orchard.encode(network),
        "sapling": sapling.encode(network),
        "transparent": transparent.encode(network),
    }))
}

impl Wallet {
    /// Opens the database, which [`Wallet::create`] gives its account.
    pub fn open(path: &Path, network: LocalNetwork, seed: SecretVec<u8>) -> Result<Self> {
        let mut db = WalletDb::for_path(path, network, SystemClock, RNG)
            .with_context(|| format!("open {}", path.display()))?;
        init_wallet_db(&mut db, None).map_err(|e| anyhow!("prepare {}: {e}", path.display()))?;
        Ok(Self { network, db, seed })
    }

    /// Adds the account. Its birthday is the block above the tree state.
    pub fn create(&mut self, before_birthday: TreeState) -> Result<()> {
        let birthday = AccountBirthday::from_treestate(before_birthday, None)
            .map_err(|e| anyhow!("the tree state below the birthday: {e}"))?;
        self.db
            .create_account("test", &self.seed, &birthday, None)?;
        Ok(())
    }

    pub fn account(&self) -> Result<AccountUuid> {
        let accounts = self.db.get_account_ids()?;
        accounts
            .first()
            .copied()
            .context("the wallet has no account: run create first")
    }

    /// Returns the balance in zatoshi, for each pool and in all.
    pub fn balance(&self) -> Result<Value> {
        let account = self.account()?;
        let summary = self
            .db
            .get_wallet_summary(ConfirmationsPolicy::default())?
            .context("the wallet has never been synced")?;
        let balance = summary
            .account_balances()
            .get(&account)
            .context("the account has no balance")?;
        Ok(json!({
            "tip": u32::from(summary.chain_tip_height()),
            "scanned": u32::from(summary.fully_scanned_height()),
            "total": u64::from(balance.total()),
            "sapling": pool(balance.sapling_balance()),
            "orchard": pool(balance.orchard_balance()),
            "ironwood": pool(balance.ironwood_balance()),
            "transparent": pool(&balance.unshielded_balance()),
        }))
    }

    /// Makes and proves a payment and stores it; nothing is sent yet.
    pub fn pay(&mut self, to: &str, amount: u64, memo: &str) -> Result<(Transaction, Value)> {
        let account = self.account()?;
        let recipient = Address::decode(&self.network, to)
            .ok_or_else(|| anyhow!("{to:?} is no address of this network"))?;
        let memo = MemoBytes::from(memo.parse::<Memo>().map_err(|e| anyhow!("memo: {e}"))?);
        let proposal = propose_standard_transfer_to_address::<_, _, commitment_tree::Error>(
            &mut self.db,
            &self.network,
            StandardFeeRule::Zip317,
            account,
            ConfirmationsPolicy::default(),
            &recipient,
            Zatoshis::from_u64(amount)
                .map_err(|_| anyhow!("amount {amount} is no amount of money"))?,
            Some(memo),
            None,
            ShieldedPool::Ironwood,
            None,
            None,
        )
        .map_err(|e| anyhow!("propose the payment: {e}"))?;
        let fee = proposal.steps().first().balance().fee_required();

        let prover = LocalTxProver::bundled();
        let keys =
            SpendingKeys::from_unified_spending_key(spending_key(&self.network, &self.seed)?);
        let txids = create_proposed_transactions::<
            _,
            _,
            std::convert::Infallible,
            _,
            std::convert::Infallible,
            _,
        >(
            &mut self.db,
            &self.network,
            &SystemClock,
            &mut { RNG },
            &prover,
            &prover,
            &keys,
            OvkPolicy::Sender,
            &proposal,
            None,
        )
        .map_err(|e| anyhow!("make the payment: {e}"))?;
        if txids.len() != 1 {
            return Err(anyhow!(
                "the payment became {} transactions instead of one",
                txids.len()
            ));
        }
        let txid = *txids.first();
        let tx = self.stored(txid)?;
        Ok((
            tx,
            json!({ "txid": txid.to_string(), "fee": u64::from(fee) }),
        ))
    }

    /// Returns a transaction that the database holds in full.
    pub fn stored(&self, txid: TxId) -> Result<Transaction> {
        self.db
            .get_transaction(txid)?
            .ok_or_else(|| anyhow!("the wallet does not hold the transaction {txid}"))
    }

    /// Says what the account can read of a transaction: the notes it gets, keeps as change, or knows to have paid.
    pub fn read(&self, tx: &Transaction) -> Result<Value> {
        let key = spending_key(&self.network, &self.seed)?.to_unified_full_viewing_key();
        let keys: HashMap<u8, UnifiedFullViewingKey> = HashMap::from([(0, key)]);
        let read = decrypt_transaction(&self.network, None, self.db.chain_height()?, tx, &keys);
        let mut notes = Vec::new();
        for out in read.sapling_outputs() {
            notes.push(note(
                "sapling",
                out.note_value().into(),
                out.transfer_type(),
                out.memo(),
            ));
        }
        for (pool, outs) in [
            ("orchard", read.orchard_outputs()),
            ("ironwood", read.ironwood_outputs()),
        ] {
            for out in outs {
                notes.push(note(
                    pool,
                    out.note().0.value().inner(),
                    out.transfer_type(),
                    out.memo(),
                ));
            }
        }
        Ok(json!({ "txid": tx.txid().to_string(), "notes": notes }))
    }
}

fn note(
    pool: &str,
    value: u64,
    transfer: zcash_client_backend::TransferType,
    memo: &MemoBytes,
) -> Value {
    let memo = match Memo::try_from(memo) {
        Ok(Memo::Text(text)) => text.to_string(),
        _ => String::new(),
    };
    json!({ "pool": pool, "value": value, "transfer": format!("{transfer:?}"), "memo": memo })
}

fn pool(balance: &Balance) -> Value {
    json!({
        "spendable": u64::from(balance.spendable_value()),
        "change_pending": u64::from(balance.change_pending_confirmation()),
        "pending": u64::from(balance.value_pending_spendability()),
    })
}
