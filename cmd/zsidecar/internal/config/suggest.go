package config

import "slices"

// nearest returns the candidate that takes the fewest single-letter edits to become word, or "" when none is near enough to be
// what was meant.
func nearest(word string, candidates []string) string {
	best, bestDist := "", max(2, len(word)/3)+1
	for _, c := range candidates {
		if d := editDistance(word, c); d < bestDist {
			best, bestDist = c, d
		}
	}
	return best
}

// editDistance is the Levenshtein distance in bytes.
func editDistance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			substitute := diagonal
			if a[i] != b[j] {
				substitute++
			}
			diagonal = row[j+1]
			row[j+1] = slices.Min([]int{substitute, row[j] + 1, row[j+1] + 1})
		}
	}
	return row[len(b)]
}
