"""``scaler_ui``: the monitor for a browser. It uses nothing else of this distribution."""

from scaler_scheduler.web.cli import main

if __name__ == "__main__":
    main()
