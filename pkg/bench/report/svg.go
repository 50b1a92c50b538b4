package report

import (
	"bytes"

	"github.com/go-analyze/charts/chartdraw"
	"github.com/go-analyze/charts/chartdraw/drawing"
)

// The size of a plot in pixels, and the room above it for title and legend.
const (
	plotWidth  = 860
	plotHeight = 430
	plotTop    = 84
)

// series is one line of a plot. Low and High are the spread of each point, or nil.
type series struct {
	name      string
	x, y      []float64
	low, high []float64
	dots      bool
}

// colours are told apart by people who do not see all colours as well (the palette of Okabe and Ito, without its yellow).
func colours() []drawing.Color {
	return []drawing.Color{
		drawing.ColorFromHex("0072B2"), drawing.ColorFromHex("D55E00"), drawing.ColorFromHex("009E73"),
		drawing.ColorFromHex("CC79A7"), drawing.ColorFromHex("E69F00"), drawing.ColorFromHex("56B4E9"), drawing.ColorFromHex("333333"),
	}
}

// draw gives a plot as SVG. Each series keeps the colour of its place in the list, whichever plot it is in; one without points is left out.
func draw(title string, x, y axis, all []series) ([]byte, error) {
	grid := chartdraw.Style{StrokeColor: drawing.ColorFromHex("dddddd"), StrokeWidth: 1}
	small := chartdraw.Style{FontStyle: chartdraw.FontStyle{FontSize: 9}}
	c := chartdraw.Chart{
		Title: title, TitleStyle: chartdraw.Style{FontStyle: chartdraw.FontStyle{FontSize: 12}, Padding: chartdraw.Box{Top: 5, IsSet: true}},
		Width: plotWidth, Height: plotHeight,
		Background: chartdraw.Style{Padding: chartdraw.Box{Top: plotTop, Left: 40, Right: 24, Bottom: 12, IsSet: true}},
		XAxis:      chartdraw.XAxis{Name: x.name, Ticks: x.ticks, Style: small, NameStyle: small, GridMajorStyle: grid, GridMinorStyle: grid},
		// The library's second axis is the one on the left; the first needs a range though nothing is on it.
		YAxis:          chartdraw.YAxis{Style: chartdraw.Hidden(), Range: &chartdraw.ContinuousRange{Max: 1}},
		YAxisSecondary: chartdraw.YAxis{Name: y.name, Ticks: y.ticks, Style: small, GridMajorStyle: grid, GridMinorStyle: grid},
	}
	palette := colours()
	for i, s := range all {
		if len(s.x) == 0 {
			continue
		}
		colour := palette[i%len(palette)]
		c.Series = append(c.Series, line(s, x, y, colour))
		for j := range s.low {
			c.Series = append(c.Series, line(series{x: []float64{s.x[j], s.x[j]}, y: []float64{s.low[j], s.high[j]}}, x, y, colour))
		}
	}
	c.Elements = []chartdraw.Renderable{chartdraw.LegendThin(&c, small)}
	var b bytes.Buffer
	if err := c.Render(chartdraw.SVG, &b); err != nil {
		return nil, err
	}
	b.WriteByte('\n')
	return b.Bytes(), nil
}

// line places the points of a series on the axes.
func line(s series, x, y axis, colour drawing.Color) chartdraw.ContinuousSeries {
	placed := chartdraw.ContinuousSeries{
		Name: Plain(s.name), YAxis: chartdraw.YAxisSecondary, Style: chartdraw.Style{StrokeColor: colour, StrokeWidth: 2},
	}
	if s.name == "" {
		placed.Style.StrokeWidth = 1
	}
	if s.dots {
		placed.Style.DotWidth, placed.Style.DotColor = 3, colour
	}
	for i := range s.x {
		placed.XValues = append(placed.XValues, x.place(s.x[i]))
		placed.YValues = append(placed.YValues, y.place(s.y[i]))
	}
	return placed
}
