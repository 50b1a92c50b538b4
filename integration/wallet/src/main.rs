//! A light wallet that the tests drive: each run executes one command and prints its answer as lines of JSON. README.md lists the
//! commands.

mod cache;
mod network;
mod server;
mod wallet;

use std::{env, path::PathBuf, process::ExitCode};

use anyhow::{Context, Result, anyhow, bail};
use secrecy::SecretVec;
use serde_json::{Value, json};
use zcash_client_backend::data_api::{TransactionStatus, WalletRead};
use zcash_protocol::{TxId, local_consensus::LocalNetwork};

use crate::{server::Server, wallet::Wallet};

fn main() -> ExitCode {
    match run(env::args().skip(1)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            eprintln!("wallet: {e:#}");
            ExitCode::FAILURE
        }
    }
}

/// The options before the command.
struct Options {
    network: LocalNetwork,
    seed: SecretVec<u8>,
    database: Option<PathBuf>,
    server: Option<String>,
}

fn run(mut args: impl Iterator<Item = String>) -> Result<()> {
    let (mut upgrades, mut seed, mut database, mut server) = (None, None, None, None);
    let command = loop {
        let arg = args.next().context("no command given")?;
        let option = match arg.as_str() {
            "--upgrades" => &mut upgrades,
            "--seed" => &mut seed,
            "--database" => &mut database,
            "--server" => &mut server,
            _ => break arg,
        };
        *option = Some(
            args.next()
                .with_context(|| format!("{arg} needs a value"))?,
        );
    };
    let options = Options {
        network: network::parse(&upgrades.context("--upgrades is missing")?)?,
        seed: SecretVec::new(hex::decode(seed.context("--seed is missing")?).context("--seed")?),
        database: database.map(PathBuf::from),
        server,
    };
    let rest: Vec<String> = args.collect();
    let rest: Vec<&str> = rest.iter().map(String::as_str).collect();
    // A thread of its own answers the server's pings while this one scans blocks or makes proofs.
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()?
        .block_on(execute(options, &command, &rest))
}

async fn execute(options: Options, command: &str, args: &[&str]) -> Result<()> {
    if let ("addresses", []) = (command, args) {
        print(wallet::addresses(&options.network, &options.seed)?);
        return Ok(());
    }
    let database = options.database.context("--database is missing")?;
    let mut wallet = Wallet::open(&database, options.network, options.seed)?;
    if let ("balance", []) = (command, args) {
        print(wallet.balance()?);
        return Ok(());
    }
    let url = options.server.context("--server is missing")?;
    let mut server = Server::connect(&url).await?;
    match (command, args) {
        ("create", [birthday]) => {
            let birthday: u64 = birthday.parse().context("birthday")?;
            let before = birthday
                .checked_sub(1)
                .context("the birthday is the genesis block")?;
            wallet.create(server.tree_state(before).await?)?;
        }
        ("sync", []) => {
            server.sync(&mut wallet).await?;
            print(wallet.balance()?);
        }
        ("send", [to, amount, memo]) => {
            let (tx, sent) = wallet.pay(to, amount.parse().context("amount")?, memo)?;
            server.send(&tx).await?;
            print(sent);
        }
        ("resend", [txid]) => {
            let tx = wallet.stored(parse_txid(txid)?)?;
            server.send(&tx).await?;
        }
        ("transaction", [txid]) => {
            let txid = parse_txid(txid)?;
            let (_, status) = server.transaction(&wallet, txid).await?;
            let scanned = wallet.db.get_tx_height(txid)?.map(u32::from);
            print(match status {
                TransactionStatus::Mined(height) => {
                    json!({ "server": "mined", "height": u32::from(height), "scanned": scanned })
                }
                TransactionStatus::NotInMainChain => {
                    json!({ "server": "unmined", "scanned": scanned })
                }
                TransactionStatus::TxidNotRecognized => {
                    json!({ "server": "unknown", "scanned": scanned })
                }
            });
        }
        ("mempool", []) => server.mempool(&mut wallet, print).await?,
        ("info", []) => print(server.info().await?),
        _ => bail!("no such command: {command} {}", args.join(" ")),
    }
    Ok(())
}

/// Parses a transaction id in display order.
fn parse_txid(text: &str) -> Result<TxId> {
    let mut bytes: [u8; 32] = hex::decode(text)?
        .try_into()
        .map_err(|_| anyhow!("txid {text:?}: want 64 digits"))?;
    bytes.reverse();
    Ok(TxId::from_bytes(bytes))
}

fn print(line: Value) {
    println!("{line}");
}
