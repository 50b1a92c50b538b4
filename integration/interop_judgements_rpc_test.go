package integration

// rpcBlockJudgements are about blocks, transactions and trees over JSON-RPC.
func rpcBlockJudgements() []judgement {
	const turned = "Zebra: a server beside it gives its bytes in its order; zainod turns these members around"
	return []judgement{
		{method: "getblock", zainod: `result: .*lacks result\.tx\[\]\.fee, lacks result\.tx\[\]\.vin\[\]\.prevout.*`,
			right: "Zebra: verbosity 3 adds the spent outputs and the fee; zainod takes it for 2, and turns other members around"},
		{method: "getblock", zainod: `result: adds result\.finalorchardroot, .*, other result\.nonce`,
			right: "Zebra: genesis has no roots; zainod gives those of empty trees, and turns the nonce around"},
		{method: "getblock|JSON-RPC", zainod: `result: adds result\.finalorchardroot, .*`,
			right: "Zebra: below NU5 a block has no Orchard root; zainod gives that of an empty tree, and turns the Sapling root around"},
		{method: "getblock|getrawtransaction", zainod: `result: other result\.[^ ]*(blockcommitments|anchor)(, other .*)?`, right: turned},
		{method: "getblock", want: "error -8", zainod: "result", right: "Zebra: there is no such verbosity; zainod takes every number for one that there is"},
		{method: "getblock", want: "error -5", zainod: "error -8", right: "Zebra: an unknown hash is -5, as in zcashd; -8 is for heights"},
		{method: "getblock|JSON-RPC", want: "error -8", zainod: "error -8: other error.message", right: "Zebra, whose text zsidecar passes on; the code is the same"},
		{method: "getblockdeltas", want: "result", zainod: "error -1",
			right: "zsidecar: Zebra has no such method, but what it needs; zainod answers beside Zebra's database only (`backend = \"direct\"`)"},
		{method: "gettxout", want: "result", zainod: "error -1", right: "Zebra: null says that there is no such unspent output; zainod makes an error of it"},
		{method: "gettxout", zainod: "result: lacks result.version", right: "Zebra: the transaction's version belongs to the answer, as in zcashd"},
		{method: "getblockheader", want: "result", zainod: "error -1", right: "Zebra: it takes heights, and `verbose` may be left out; zainod wants a hash and both parameters"},
		{method: "z_gettreestate", want: "result", zainod: "error -1", right: "Zebra: negative heights count from the tip; zainod does not know them here"},
		{method: "getblocksubsidy", want: "result", zainod: "error -1", right: "Zebra: the height may be left out, and is the tip's then; zainod wants one"},
		{method: "getrawtransaction", want: "error -5", zainod: "result", right: "Zebra: the third parameter says in which block to look; zainod ignores it"},
		{method: "sendrawtransaction", zainod: "error -8", right: "Zebra: what does not decode is -22, as in zcashd; zainod says -8 for every refusal"},
	}
}

// rpcMethodJudgements are about the other methods, and those that one of the two lacks.
func rpcMethodJudgements() []judgement {
	return []judgement{
		{zainod: "error -32601", right: "Zebra: zainod lacks the method"},
		{method: "JSON-RPC|strange JSON", zainod: `batch: .*other \[\]\.error\.code.*`, right: "Zebra: zainod lacks getblockhash, which the batch asks"},
		{method: "gettxoutsetinfo", want: "error -1", zainod: "result",
			right: "zainod: it keeps the unspent outputs. zsidecar says that it has no such index yet"},
		{method: "getspentinfo|getaddressdeltas", zainod: "error -1: other error.message",
			right: "neither can answer: zsidecar says what is missing, zainod that it has an internal error"},
		{method: "getrawmempool", want: "error -1", zainod: "result", right: "Zebra: the parameter is no boolean; zainod looks at none"},
		{method: "getrawmempool", zainod: "result: other result", right: "Zebra: the verbose form has size, fee and time of each; zainod looks at no parameter"},
		{method: "getnetworksolps", zainod: "result: other result",
			right: "Zebra: a number that is not positive means the blocks that the difficulty is averaged over; zainod makes -1 the default of 120"},
		{method: "getaddressutxos", zainod: "result: other result", right: "Zebra: with `chainInfo` the answer names the block that it holds for; zainod ignores it"},
		{method: "getaddressutxos", zainod: `result: other number of result\[\]`, right: "Zebra: `maxEntries` cuts the list; zainod ignores it"},
		{method: "getaddressutxos", want: "error -8", zainod: "result", right: "Zebra: `maxEntries` has a limit; zainod ignores it"},
		{method: "getaddress.*", want: "error -5", zainod: "result", right: "Zebra: its index does not have TEX addresses, and says so; in zainod they look like empty purses"},
		{method: "validateaddress", zainod: "result: lacks .*", right: "Zebra: TEX addresses are valid (ZIP 320)"},
		{method: "z_validateaddress", zainod: "result: adds .*", right: "Zebra's members are a part of zcashd's, and so are zainod's: each has some that the other lacks"},
		{method: "getmininginfo", zainod: "result: adds .*", right: "Zebra: what has no value is left out; zainod adds seven members that are null"},
		{method: "getmempoolinfo", zainod: `result: other result\.usage`,
			right: "Zebra: it is about the node's mempool. zainod tells the cost of its own copy by ZIP 401, at least 10,000 a transaction"},
	}
}

// rpcErrorJudgements are about errors, and the form of requests.
func rpcErrorJudgements() []judgement {
	const data = "Zebra: `data` says what is wrong with the parameters; zainod cuts it off"
	return []judgement{
		{want: "error -1", zainod: "error -1: lacks error.data", right: data},
		{want: "batch", zainod: `batch: lacks \[\]\.error\.data`, right: data},
		{want: "error -[58]", zainod: "error -1",
			right: "Zebra: the code and the text say what is wrong; zainod says -1 and \"Internal server error\""},
		{want: "error -1", zainod: "error -1: other error.message", right: "Zebra: its text says what is wrong; zainod's is \"Internal server error\""},
		{method: "JSON-RPC", zainod: `batch: adds \[\]\.error, adds \[\]\.result.*`, right: "Zebra: verbosity 9 in the batch is an error; zainod takes it for 2"},
		{method: "JSON-RPC", want: "result", zainod: "empty reply",
			right: "Zebra: in JSON-RPC 2.0 only a request without an id is a notification, and null is one"},
		{method: "JSON-RPC", want: "result", zainod: "error -32600",
			right: "Zebra: in JSON-RPC 1.0 a null id is allowed. It makes a notification, which needs no answer, but is not wrong"},
	}
}
