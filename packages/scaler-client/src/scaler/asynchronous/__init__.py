"""The client of asyncio. Loaded when it is first used, because asyncio takes long to import."""
