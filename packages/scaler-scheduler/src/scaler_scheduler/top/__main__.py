from scaler_scheduler.top.cli import main

if __name__ == "__main__":
    main()
