package integration

import "slices"

// judgements say who is right where zainod differs. The first that fits counts.
func judgements() []judgement {
	return slices.Concat(requestJudgements(), blockJudgements(), rangeJudgements(), transactionJudgements(), addressJudgements(),
		treeJudgements(), serviceJudgements(), rpcBlockJudgements(), rpcMethodJudgements(), rpcErrorJudgements())
}

// The words for what several methods show.
const (
	serverNotBroken = "zsidecar: the request is wrong, not the server"
	badHash         = "zsidecar: no hash has that length; zainod ignores it and takes the height beside it, which is 0 when there is none"
)

// requestJudgements are about requests that no method would want.
func requestJudgements() []judgement {
	const limit = "either: the protocol has no limit. zsidecar takes 1 MiB, so that requests cannot fill its memory, and zainod 4 MiB"
	return []judgement{
		{example: "a request that does not decode", right: serverNotBroken},
		{method: sendTransaction, example: "a request above the limit of its size|more than 4 MiB", zainod: "OUT_OF_RANGE",
			right: "zsidecar: RESOURCE_EXHAUSTED is gRPC's word for what is too large. Both have the limit of 4 MiB"},
		{example: "a request above the limit of its size", right: limit},
	}
}

// blockJudgements are about GetBlock and GetBlockNullifiers.
func blockJudgements() []judgement {
	return []judgement{
		{method: getBlock, zainod: `OK: (lacks|other number of) \[\]\.vtx(\[\])?`,
			right: "zsidecar: GetBlock has no filter and promises the block, and lightwalletd gives all of it; `getblock_pools = \"shielded\"` gives zainod's answer"},
		{method: getBlock, example: "every pool, every transaction, tree sizes",
			right: "zsidecar: GetBlock promises the block; zainod leaves transactions without a shielded part out"},
		{example: "height and another block's hash", want: "NOT_FOUND", zainod: "OK",
			right: "open: the protocol does not say what a contradiction means. zainod believes the hash; to zsidecar such a wallet is on another branch"},
		{example: "(height and an )?unknown hash|hash in display order", want: "NOT_FOUND", zainod: "INVALID_ARGUMENT",
			right: "zsidecar: the request is well formed, only the block is not there"},
		{example: "neither height nor hash",
			right: "either: proto3 cannot tell height 0 from none. zsidecar refuses, as lightwalletd does; zainod answers with the genesis block"},
		{example: "hash of 3[13] bytes|height and a hash of 33 bytes", right: badHash},
		{method: "GetBlock.*", example: `height 2\^.*`, want: "OUT_OF_RANGE", zainod: "INVALID_ARGUMENT",
			right: "zsidecar: above the tip is OUT_OF_RANGE whatever the size, as in lightwalletd and in zainod itself below 2^32"},
	}
}

// rangeJudgements are about ranges of blocks.
func rangeJudgements() []judgement {
	return []judgement{
		{method: getBlockRange, zainod: `OK: lacks \[\]\.vtx\[\]\.vout\[\]\.scriptPubKey`,
			right: "zsidecar: an output has the script that the block has; zainod keeps the two common forms alone, and sends OP_RETURN and pay-to-public-key empty"},
		{method: "GetBlockRange.*", example: "(start|end) absent", right: "zsidecar: as lightwalletd. OUT_OF_RANGE is for heights that are not there"},
		{method: "GetBlockRange.*", example: "hash alone at the (start|end)",
			right: "zsidecar: a BlockID may name a block by its hash; zainod ignores hashes in ranges and reads from height 0"},
		{method: "GetBlockRange.*", example: "unknown hash.*|another block's hash beside the start",
			right: "zsidecar: who names a block of another branch must not get blocks of this one; zainod ignores hashes in ranges, as lightwalletd does"},
		{method: "GetBlockRange.*", example: `up to 2\^64-1`,
			right: "zsidecar: the blocks up to the tip come first, as for every other end above it, also in zainod"},
		{method: "GetBlockRange.*", example: `from 2\^.*`, zainod: "OUT_OF_RANGE, tip not named",
			right: "either: the status is the same; zainod names the tip for smaller heights only"},
		{method: "GetBlockRange.*", example: "pool type .*", zainod: "INVALID_ARGUMENT, other text", right: "either: the status is the same; zsidecar names the field"},
		{method: "GetBlockRange.*", example: "pool types repeated, in any order",
			right: "zsidecar: the protocol does not forbid it, lightwalletd takes it, and it changes nothing"},
		{method: "GetBlockRangeNullifiers", example: "TRANSPARENT .*",
			right: "zsidecar: nullifiers are shielded, and lightwalletd takes the pool out of the request; in zainod it decides which transactions are listed"},
	}
}

// transactionJudgements are about transactions and the mempool.
func transactionJudgements() []judgement {
	return []judgement{
		{method: getTransaction, want: "NOT_FOUND", zainod: "INTERNAL",
			right: "zsidecar: nothing is broken, Zebra says that there is no such transaction, and lightwalletd answers NOT_FOUND"},
		{method: sendTransaction, want: "INVALID_ARGUMENT", right: serverNotBroken},
		{method: sendTransaction, example: "accepted: .*",
			right: "zsidecar: what was accepted can be read at once; GetTransaction of zainod says INTERNAL until it has polled the mempool again"},
		{method: sendTransaction, want: "OK", zainod: "INTERNAL",
			right: "zsidecar: SendResponse is there for the node's code and text, which wallets match, and lightwalletd sends them"},
		{method: "GetMempoolTx", example: "pool type .*",
			right: "zsidecar: who asks for a pool that we do not know must not believe it empty; zainod ignores the field here"},
		{method: "GetMempoolTx", zainod: `OK: other number of \[\]`,
			right: "zsidecar: the field means what it means in ranges, so that only shielded transactions come when no pool is named; " +
				"zainod ignores it and sends all"},
		{method: "GetMempoolTx", example: "empty suffix excludes nothing",
			right: "either: zainod wants at least 4 bytes; an empty suffix fits several transactions, and then excludes none"},
		{method: "GetMempoolTx", example: "20,000 suffixes of 32 bytes",
			right: "either: it is a limit, lightwalletd's here, 1,024 in zainod (`mempool.max_exclude_count`)"},
	}
}

// addressJudgements are about transparent addresses.
func addressJudgements() []judgement {
	const lightwalletdLimit = "zsidecar: lightwalletd's limit of 10,000 and its status"
	return []judgement{
		{example: "wrong checksum|no address|TEX of another network|Sapling address|unified address|something else", want: "INVALID_ARGUMENT", zainod: "INTERNAL",
			right: serverNotBroken},
		{example: "(address|TEX) of another network", zainod: "OK",
			right: "zsidecar: a mistake must not look like an empty purse. Zebra does not notice it either"},
		{example: "TEX address: as the address that it contains",
			right: "zsidecar: by ZIP 320 it is that address, and wallets pass what the user typed; Zebra refuses it"},
		{example: "10,000 addresses", zainod: "INVALID_ARGUMENT", right: "either: it is a limit, lightwalletd's here, 1,000 in zainod"},
		{method: "GetTaddressBalanceStream", example: "10,00[01] addresses|one address 10,001 times",
			right: lightwalletdLimit + "; zainod has none, and asks Zebra for each address by itself, for some 20 s"},
		{method: "GetTaddressBalanceStream", example: "address repeated.*",
			right: "zsidecar: it is the balance of the addresses; zainod counts one that is named twice twice"},
		{method: "GetTaddressBalanceStream", example: ".*, the stream still open",
			right: "zsidecar: nothing that follows can make it right; zainod waits for the end of the stream"},
		{method: "GetTaddressBalance", example: "10,001 addresses",
			right: lightwalletdLimit + "; zainod makes INTERNAL of Zebra's limit, which is the same"},
		{example: "10,001 addresses|one address 10,001 times", right: lightwalletdLimit},
		{example: "start absent", right: "zsidecar: as lightwalletd; zainod takes it for height 0"},
		{example: "end below start", right: "either: zsidecar takes it for a mistake, zainod exchanges the two"},
		{example: "10,000,001 blocks", right: "either: it is a limit, lightwalletd's here, none in zainod"},
		{example: "above the tip: nothing|from .*, end 0: nothing", zainod: "another answer",
			right: "zsidecar: nothing is there; zainod moves the heights to the tip and sends the tip block's transactions"},
		{example: `from 2\^.*, end 0: nothing`, zainod: "INVALID_ARGUMENT", right: "either: nothing is there, and zainod has no height that large"},
	}
}

// treeJudgements are about trees and subtrees.
func treeJudgements() []judgement {
	return []judgement{
		{method: getTreeState, zainod: `OK: lacks .*Tree`, right: "zsidecar: `000000` is the encoding of an empty tree, which wallets parse; an empty text is none"},
		{method: getTreeState, example: "genesis by hash, .*|every block: .*",
			right: "zsidecar: `000000` is the encoding of an empty tree, which wallets parse; an empty text is none"},
		{method: getTreeState, example: "hash in display order",
			right: "zsidecar: lightwalletd takes display order here, so that wallets of both kinds come; no hash fits twice"},
		{method: getTreeState, example: "height and an unknown hash: .*",
			right: "either: the protocol does not say which counts. zainod believes the hash, zsidecar and lightwalletd the height"},
		{method: getTreeState, example: `height 2\^.*`, zainod: "INVALID_ARGUMENT", right: "zsidecar: above the tip is OUT_OF_RANGE whatever the size"},
		{method: getTreeState, want: "NOT_FOUND|OUT_OF_RANGE", zainod: "INTERNAL", right: "zsidecar: nothing is broken, the block is not there"},
		{method: "GetSubtreeRoots", want: "OK", zainod: "INVALID_ARGUMENT",
			right: "zsidecar: the protocol's numbers have 32 bits; zainod hands down that Zebra's have 16"},
		{method: "GetSubtreeRoots", example: "shieldedProtocol .*", right: "either: the status is the same, the words differ"},
	}
}

// serviceJudgements are about what a server says of itself.
func serviceJudgements() []judgement {
	return []judgement{
		{method: "GetLightdInfo", right: "each names itself. Of upgradeName and upgradeHeight zsidecar is right: " +
			"they are the next upgrade, and none is pending; zainod names the newest that it knows"},
		{method: "Ping", example: "switched off", right: "zsidecar: as lightwalletd. The method is there, and the message names the switch; zainod has none"},
	}
}
