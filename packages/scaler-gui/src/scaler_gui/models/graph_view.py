"""The visible part of a drawing: a scale, and the point in the middle."""

from __future__ import annotations

LEAST_SCALE, MOST_SCALE = 0.005, 240.0


class Camera:
    """Maps places of a drawing to pixels."""

    def __init__(self) -> None:
        self.scale = 40.0
        """Pixels per unit."""

        self.x, self.y = 0.0, 0.0
        self.fits = True
        """Whether the whole drawing is kept in sight when it or the window changes."""

    def to_pixels(self, x: float, y: float, width: int, height: int) -> tuple[float, float]:
        return (x - self.x) * self.scale + width / 2, (y - self.y) * self.scale + height / 2

    def to_place(self, pixel_x: float, pixel_y: float, width: int, height: int) -> tuple[float, float]:
        return (pixel_x - width / 2) / self.scale + self.x, (pixel_y - height / 2) / self.scale + self.y

    def fit(self, bounds: tuple[float, float, float, float], width: int, height: int, most: float = 46.0) -> None:
        """All of ``bounds`` (left, top, right, bottom), as large as it goes but not larger than ``most``."""
        left, top, right, bottom = bounds
        scale = min(width / max(right - left, 1e-9), height / max(bottom - top, 1e-9))
        self.scale = min(max(scale, LEAST_SCALE), most)
        self.x, self.y = (left + right) / 2, (top + bottom) / 2
        self.fits = True

    def zoom(self, factor: float, pixel_x: float, pixel_y: float, width: int, height: int) -> None:
        """Larger with a factor above one; what is under the pixel stays there."""
        x, y = self.to_place(pixel_x, pixel_y, width, height)
        self.scale = min(max(self.scale * factor, LEAST_SCALE), MOST_SCALE)
        self.x, self.y = x - (pixel_x - width / 2) / self.scale, y - (pixel_y - height / 2) / self.scale
        self.fits = False

    def pan(self, pixels_x: float, pixels_y: float) -> None:
        self.x -= pixels_x / self.scale
        self.y -= pixels_y / self.scale
        self.fits = False
