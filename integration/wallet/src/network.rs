//! The chain that the wallet lives on: regtest, with the activation heights of the node under test.

use anyhow::{Result, anyhow, bail};
use zcash_protocol::{consensus::BlockHeight, local_consensus::LocalNetwork};

/// Parses `NAME=HEIGHT,...` with the names that Zebra gives the upgrades. An upgrade that is not named never activates; one that this
/// wallet does not know is an error, because transactions above its height would carry the wrong branch id.
pub fn parse(upgrades: &str) -> Result<LocalNetwork> {
    let mut network = LocalNetwork {
        overwinter: None,
        sapling: None,
        blossom: None,
        heartwood: None,
        canopy: None,
        nu5: None,
        nu6: None,
        nu6_1: None,
        nu6_2: None,
        nu6_3: None,
        nu7: None,
    };
    for entry in upgrades.split(',') {
        let (name, height) = entry
            .split_once('=')
            .ok_or_else(|| anyhow!("upgrade {entry:?}: want NAME=HEIGHT"))?;
        let height = height
            .parse()
            .map_err(|e| anyhow!("height of upgrade {name}: {e}"))?;
        *field(&mut network, name)? = Some(BlockHeight::from_u32(height));
    }
    Ok(network)
}

fn field<'a>(network: &'a mut LocalNetwork, name: &str) -> Result<&'a mut Option<BlockHeight>> {
    Ok(match name {
        "Overwinter" => &mut network.overwinter,
        "Sapling" => &mut network.sapling,
        "Blossom" => &mut network.blossom,
        "Heartwood" => &mut network.heartwood,
        "Canopy" => &mut network.canopy,
        "NU5" => &mut network.nu5,
        "NU6" => &mut network.nu6,
        "NU6.1" => &mut network.nu6_1,
        "NU6.2" => &mut network.nu6_2,
        "NU6.3" => &mut network.nu6_3,
        "NU7" => &mut network.nu7,
        _ => bail!("upgrade {name:?} is not known to this wallet"),
    })
}
