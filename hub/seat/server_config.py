"""How a seat's Jupyter server treats sessions: at most two lessons stay open at a time."""

from pathlib import Path
from typing import Any

from jupyter_server.services.kernels.kernelmanager import AsyncMappingKernelManager

import course

KEPT = 2
"""Sessions that stay when another is started: memory is a seat's scarcest thing."""


class SeatKernels(AsyncMappingKernelManager):
    """Ends the session that has been idle for longest when one more than KEPT would run."""

    async def start_kernel(self, *args: Any, **kwargs: Any) -> str:  # type: ignore[override]
        idle = [(self._kernels[each].last_activity, each) for each in self.list_kernel_ids()
                if self._kernels[each].execution_state == "idle"]  # fmt: skip
        for _, oldest in sorted(idle)[: max(0, len(self.list_kernel_ids()) - KEPT + 1)]:
            await self.shutdown_kernel(oldest)  # type: ignore[no-untyped-call]
        started: str = await super().start_kernel(*args, **kwargs)
        return started


c = get_config()  # type: ignore[name-defined]  # noqa: F821
c.ServerApp.kernel_manager_class = SeatKernels
c.KernelSpecManager.ensure_native_kernel = True
c.LabApp.extension_manager = "readonly"
c.LabApp.app_settings_dir = str(Path(course.__file__).parent / "lessons" / "lab_settings")
