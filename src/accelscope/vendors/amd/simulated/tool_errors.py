"""What AMD's tools say when they cannot answer. rocm-smi ends well nevertheless."""

from accelscope.simulate.tool import Answer

_TRACEBACK = (
    "Traceback (most recent call last):\n"
    '  File "/opt/rocm/bin/amd-smi", line 40, in <module>\n'
    "    from amdsmi_init import *\n"
    "ModuleNotFoundError: No module named 'amdsmi'\n"
)

AMD_SMI_ERRORS = {
    "driver_not_loaded": Answer(
        error_text="ERROR: Driver not loaded (amdgpu not found in modules)\n", exit_code=250
    ),
    "no_devices": Answer(error_text="ERROR: Unable to detect any GPU devices\n", exit_code=253),
    "no_permission": Answer(
        text="WARNING: User is missing the following required groups: render, video. Please add user to "
        "these groups.\n",
        error_text="AMDSMI_STATUS_NO_PERM - Permission Denied\n",
        exit_code=246,
    ),
    "library_missing": Answer(error_text=_TRACEBACK, exit_code=1),
}
ROCM_SMI_ERRORS = {
    "driver_not_loaded": Answer(
        error_text="ERROR:root:Driver not initialized (amdgpu not found in modules)\n"
    ),
    "no_devices": Answer(text="WARNING: No JSON data to report\n"),
    "no_permission": Answer(error_text="ERROR: Permission denied\n"),
    "library_missing": Answer(
        error_text="librocm_smi64.so: cannot open shared object file: No such file or directory\n",
        exit_code=1,
    ),
}
