package integration

// judgements say who is right where zainod differs. The first that fits counts.
func judgements() []judgement {
	return nil
}
