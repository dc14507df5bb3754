"""Asks where to connect to: an address, watched before or new, and the folder of key files that it needs."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import Qt
from PySide6.QtWidgets import (
    QComboBox,
    QDialog,
    QDialogButtonBox,
    QFileDialog,
    QFormLayout,
    QHBoxLayout,
    QLabel,
    QLineEdit,
    QPushButton,
    QVBoxLayout,
    QWidget,
)

from scaler_gui.models.places import problem_of
from scaler_gui.models.recent import RecentAddress

_EXAMPLE = "tcp://127.0.0.1:2345"


class ConnectDialog(QDialog):
    """``place`` is what was chosen, once it is accepted."""

    def __init__(self, recent: Sequence[RecentAddress], parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setWindowTitle("Connect to a scheduler")
        self.setMinimumWidth(520)
        self._recent = {place.address: place for place in recent}
        self.address = self._address_box(recent)
        self.keys = QLineEdit()
        self.keys.setPlaceholderText("none")
        self.keys.setAccessibleName("Folder of key files")
        self._problem = QLabel()
        self._problem.setWordWrap(True)
        self._buttons = QDialogButtonBox(QDialogButtonBox.StandardButton.Open | QDialogButtonBox.StandardButton.Cancel)
        self._connect = self._buttons.button(QDialogButtonBox.StandardButton.Open)
        self._lay_out()
        self.address.editTextChanged.connect(self._on_address)
        self.keys.textChanged.connect(self._check)
        self._on_address(self.address.currentText())

    @property
    def place(self) -> RecentAddress:
        return RecentAddress(self.address.currentText().strip(), self.keys.text().strip())

    def _address_box(self, recent: Sequence[RecentAddress]) -> QComboBox:
        box = QComboBox()
        box.setEditable(True)
        box.setAccessibleName("Monitor address")
        box.addItems([place.address for place in recent])
        line = box.lineEdit()
        assert line is not None
        line.setPlaceholderText(_EXAMPLE)
        line.selectAll()
        line.returnPressed.connect(lambda: self._connect.click())  # a combo box keeps Enter to itself
        return box

    def _lay_out(self) -> None:
        self._connect.setText("&Connect")
        self._connect.setDefault(True)
        self._buttons.accepted.connect(self.accept)
        self._buttons.rejected.connect(self.reject)
        self._problem.setProperty("role", "muted")
        self._problem.setTextFormat(Qt.TextFormat.PlainText)
        form = QFormLayout()
        form.setFieldGrowthPolicy(QFormLayout.FieldGrowthPolicy.AllNonFixedFieldsGrow)
        form.addRow("&Address", self.address)
        form.addRow("&Key files", self._keys_row())
        box = QVBoxLayout(self)
        box.setContentsMargins(18, 18, 18, 14)
        box.setSpacing(10)
        box.addWidget(QLabel("Address of a scheduler of this machine, or a monitor address"))
        box.addLayout(form)
        box.addWidget(self._problem)
        box.addWidget(self._buttons)

    def _keys_row(self) -> QWidget:
        row = QWidget()
        line = QHBoxLayout(row)
        line.setContentsMargins(0, 0, 0, 0)
        browse = QPushButton("&Browse...")
        browse.setAutoDefault(False)
        browse.clicked.connect(self._browse)
        line.addWidget(self.keys, 1)
        line.addWidget(browse)
        row.setFocusProxy(self.keys)
        return row

    def _browse(self) -> None:
        folder = QFileDialog.getExistingDirectory(self, "Folder of key files (made by scaler_keygen)", self.keys.text())
        if folder:
            self.keys.setText(folder)

    def _on_address(self, address: str) -> None:
        known = self._recent.get(address.strip())
        if known is not None:
            self.keys.setText(known.keys)
        self._check()

    def _check(self) -> None:
        problem = problem_of(self.place) if self.place.address else ""
        self._problem.setText(problem or "Key files are needed for tcp addresses of schedulers that have keys.")
        ready = bool(self.place.address) and not problem
        self._connect.setEnabled(ready)
