"""Which messages are there, as the compiler of protobuf describes them?

Written by .ci/stubs from the .proto files beside it: change those.
"""

from __future__ import annotations

from typing import Final

FILES: Final[dict[str, bytes]] = {
    "health_v1.proto": (
        b'\x0a\x0fhealth_v1.proto\x12\x0egrpc.health.v1".\x0a\x12HealthChec'
        b'kRequest\x12\x18\x0a\x07service\x18\x01 \x01(\x09R\x07service"\xb1\x01\x0a\x13He'
        b"althCheckResponse\x12I\x0a\x06status\x18\x01 \x01(\x0e21.grpc.health.v1.HealthCheckR"
        b'esponse.ServingStatusR\x06status"O\x0a\x0dServingStatus\x12\x0b'
        b"\x0a\x07UNKNOWN\x10\x00\x12\x0b\x0a\x07SERVING\x10\x01\x12\x0f\x0a\x0bNOT_SERVI"
        b"NG\x10\x02\x12\x13\x0a\x0fSERVICE_UNKNOWN\x10\x032Z\x0a\x06Health\x12P\x0a"
        b'\x05Check\x12".grpc.health.v1.HealthCheckRequest\x1a#.grpc.health.v1.Healt'
        b"hCheckResponseb\x06proto3"
    ),
    "reflection_v1.proto": (
        b'\x0a\x13reflection_v1.proto\x12\x12grpc.reflection.v1"\xf3\x02\x0a\x17Serv'
        b"erReflectionRequest\x12\x12\x0a\x04host\x18\x01 \x01(\x09R\x04host\x12*\x0a\x10file_"
        b"by_filename\x18\x03 \x01(\x09H\x00R\x0efileByFilename\x126\x0a\x16file_con"
        b"taining_symbol\x18\x04 \x01(\x09H\x00R\x14fileContainingSymbol\x12"
        b"b\x0a\x19file_containing_extension\x18\x05 \x01(\x0b2$.grpc.reflection.v1.Ext"
        b"ensionRequestH\x00R\x17fileContainingExtension\x12B\x0a\x1dall_extension"
        b"_numbers_of_type\x18\x06 \x01(\x09H\x00R\x19allExtensionNumbersOfType\x12%\x0a"
        b"\x0dlist_services\x18\x07 \x01(\x09H\x00R\x0clistServicesB\x11\x0a\x0fmessage_requ"
        b"est\"f\x0a\x10ExtensionRequest\x12'\x0a\x0fcontaining_type\x18\x01 \x01(\x09R\x0e"
        b"containingType\x12)\x0a\x10extension_number\x18\x02 \x01(\x05R\x0fexten"
        b'sionNumber"\xae\x04\x0a\x18ServerReflectionResponse\x12\x1d\x0a\x0aval'
        b"id_host\x18\x01 \x01(\x09R\x09validHost\x12V\x0a\x10original_reques"
        b"t\x18\x02 \x01(\x0b2+.grpc.reflection.v1.ServerReflectionRequestR\x0fori"
        b"ginalRequest\x12f\x0a\x18file_descriptor_response\x18\x04 \x01(\x0b2*.grpc."
        b"reflection.v1.FileDescriptorResponseH\x00R\x16fileDescriptorResponse\x12r\x0a\x1ea"
        b"ll_extension_numbers_response\x18\x05 \x01(\x0b2+.grpc.reflection.v1.Extens"
        b"ionNumberResponseH\x00R\x1ballExtensionNumbersResponse\x12_\x0a\x16list_"
        b"services_response\x18\x06 \x01(\x0b2'.grpc.reflection.v1.ListServi"
        b"ceResponseH\x00R\x14listServicesResponse\x12J\x0a\x0eerror_respo"
        b"nse\x18\x07 \x01(\x0b2!.grpc.reflection.v1.ErrorResponseH\x00R\x0derrorResponse"
        b'B\x12\x0a\x10message_response"L\x0a\x16FileDescriptorResponse\x122\x0a\x15file_'
        b'descriptor_proto\x18\x01 \x03(\x0cR\x13fileDescriptorProto"j\x0a\x17Ex'
        b"tensionNumberResponse\x12$\x0a\x0ebase_type_name\x18\x01 \x01(\x09"
        b"R\x0cbaseTypeName\x12)\x0a\x10extension_number\x18\x02 \x03(\x05R\x0fextensionNum"
        b'ber"T\x0a\x13ListServiceResponse\x12=\x0a\x07service\x18\x01 \x03(\x0b2#.g'
        b'rpc.reflection.v1.ServiceResponseR\x07service"%\x0a\x0fServiceRe'
        b'sponse\x12\x12\x0a\x04name\x18\x01 \x01(\x09R\x04name"S\x0a\x0dErrorResponse\x12\x1d'
        b"\x0a\x0aerror_code\x18\x01 \x01(\x05R\x09errorCode\x12#\x0a\x0derro"
        b"r_message\x18\x02 \x01(\x09R\x0cerrorMessage2\x89\x01\x0a\x10ServerR"
        b"eflection\x12u\x0a\x14ServerReflectionInfo\x12+.grpc.reflection.v1.Se"
        b"rverReflectionRequest\x1a,.grpc.reflection.v1.ServerReflection"
        b"Response(\x010\x01b\x06proto3"
    ),
    "reflection_v1alpha.proto": (
        b"\x0a\x18reflection_v1alpha.proto\x12\x17grpc.reflection.v1alpha"
        b'"\xf8\x02\x0a\x17ServerReflectionRequest\x12\x12\x0a\x04host\x18'
        b"\x01 \x01(\x09R\x04host\x12*\x0a\x10file_by_filename\x18\x03 \x01("
        b"\x09H\x00R\x0efileByFilename\x126\x0a\x16file_containing_symbol\x18\x04 "
        b"\x01(\x09H\x00R\x14fileContainingSymbol\x12g\x0a\x19file_containing_"
        b"extension\x18\x05 \x01(\x0b2).grpc.reflection.v1alpha.ExtensionRequestH\x00"
        b"R\x17fileContainingExtension\x12B\x0a\x1dall_extension_numbers_of_type"
        b"\x18\x06 \x01(\x09H\x00R\x19allExtensionNumbersOfType\x12%\x0a\x0dli"
        b'st_services\x18\x07 \x01(\x09H\x00R\x0clistServicesB\x11\x0a\x0fmessage_request"f'
        b"\x0a\x10ExtensionRequest\x12'\x0a\x0fcontaining_type\x18\x01 \x01(\x09R\x0econtai"
        b"ningType\x12)\x0a\x10extension_number\x18\x02 \x01(\x05R\x0fextensionNumb"
        b'er"\xc7\x04\x0a\x18ServerReflectionResponse\x12\x1d\x0a\x0avalid_host\x18\x01'
        b" \x01(\x09R\x09validHost\x12[\x0a\x10original_request\x18\x02 \x01(\x0b20.g"
        b"rpc.reflection.v1alpha.ServerReflectionRequestR\x0foriginalRe"
        b"quest\x12k\x0a\x18file_descriptor_response\x18\x04 \x01(\x0b2/.grpc.reflecti"
        b"on.v1alpha.FileDescriptorResponseH\x00R\x16fileDescriptorResponse\x12w\x0a\x1eall_ex"
        b"tension_numbers_response\x18\x05 \x01(\x0b20.grpc.reflection.v1alpha.Extensi"
        b"onNumberResponseH\x00R\x1ballExtensionNumbersResponse\x12d\x0a\x16list_serv"
        b"ices_response\x18\x06 \x01(\x0b2,.grpc.reflection.v1alpha.ListServi"
        b"ceResponseH\x00R\x14listServicesResponse\x12O\x0a\x0eerror_respons"
        b"e\x18\x07 \x01(\x0b2&.grpc.reflection.v1alpha.ErrorResponseH\x00R\x0derrorRespons"
        b'eB\x12\x0a\x10message_response"L\x0a\x16FileDescriptorResponse\x122\x0a\x15file_d'
        b'escriptor_proto\x18\x01 \x03(\x0cR\x13fileDescriptorProto"j\x0a\x17Exten'
        b"sionNumberResponse\x12$\x0a\x0ebase_type_name\x18\x01 \x01(\x09R\x0cba"
        b'seTypeName\x12)\x0a\x10extension_number\x18\x02 \x03(\x05R\x0fextensionNumber"Y\x0a'
        b"\x13ListServiceResponse\x12B\x0a\x07service\x18\x01 \x03(\x0b2(.grpc.ref"
        b'lection.v1alpha.ServiceResponseR\x07service"%\x0a\x0fServiceRespo'
        b'nse\x12\x12\x0a\x04name\x18\x01 \x01(\x09R\x04name"S\x0a\x0dErrorRe'
        b"sponse\x12\x1d\x0a\x0aerror_code\x18\x01 \x01(\x05R\x09errorCode\x12#\x0a"
        b"\x0derror_message\x18\x02 \x01(\x09R\x0cerrorMessage2\x93\x01\x0a\x10Server"
        b"Reflection\x12\x7f\x0a\x14ServerReflectionInfo\x120.grpc.reflection.v1alpha."
        b"ServerReflectionRequest\x1a1.grpc.reflection.v1alpha.ServerReflecti"
        b"onResponse(\x010\x01b\x06proto3"
    ),
    "run_function_v1.proto": (
        b"\x0a\x15run_function_v1.proto\x12\x19apiextensions.fn.proto.v1\x1a"
        b"\x1egoogle/protobuf/duration.proto\x1a\x1cgoogle/protobuf/s"
        b'truct.proto"\xa6\x09\x0a\x12RunFunctionRequest\x12:\x0a\x04meta\x18\x01 \x01(\x0b2&'
        b".apiextensions.fn.proto.v1.RequestMetaR\x04meta\x12<\x0a\x08o"
        b"bserved\x18\x02 \x01(\x0b2 .apiextensions.fn.proto.v1.StateR"
        b"\x08observed\x12:\x0a\x07desired\x18\x03 \x01(\x0b2 .apiextensions.fn.pr"
        b"oto.v1.StateR\x07desired\x122\x0a\x05input\x18\x04 \x01(\x0b2\x17.google.pr"
        b"otobuf.StructH\x00R\x05input\x88\x01\x01\x126\x0a\x07contex"
        b"t\x18\x05 \x01(\x0b2\x17.google.protobuf.StructH\x01R\x07context\x88\x01\x01\x12"
        b"n\x0a\x0fextra_resources\x18\x06 \x03(\x0b2A.apiextensions.fn.proto.v1.RunFunctio"
        b"nRequest.ExtraResourcesEntryB\x02\x18\x01R\x0eextraResources\x12`\x0a\x0bcredential"
        b"s\x18\x07 \x03(\x0b2>.apiextensions.fn.proto.v1.RunFunctionRequest.Crede"
        b"ntialsEntryR\x0bcredentials\x12s\x0a\x12required_resources\x18\x08 \x03(\x0b2D.apiex"
        b"tensions.fn.proto.v1.RunFunctionRequest.RequiredResourcesEntryR\x11requiredResourc"
        b"es\x12m\x0a\x10required_schemas\x18\x09 \x03(\x0b2B.apiextensions.fn.proto.v1.R"
        b"unFunctionRequest.RequiredSchemasEntryR\x0frequiredSchemas\x1ag"
        b"\x0a\x13ExtraResourcesEntry\x12\x10\x0a\x03key\x18\x01 \x01(\x09R\x03key\x12:\x0a"
        b"\x05value\x18\x02 \x01(\x0b2$.apiextensions.fn.proto.v1.ResourcesR\x05valu"
        b"e:\x028\x01\x1af\x0a\x10CredentialsEntry\x12\x10\x0a\x03key\x18\x01 \x01(\x09R\x03k"
        b"ey\x12<\x0a\x05value\x18\x02 \x01(\x0b2&.apiextensions.fn.proto.v1.Credentia"
        b"lsR\x05value:\x028\x01\x1aj\x0a\x16RequiredResourcesEntry\x12"
        b"\x10\x0a\x03key\x18\x01 \x01(\x09R\x03key\x12:\x0a\x05value\x18\x02 \x01(\x0b2$.apiex"
        b"tensions.fn.proto.v1.ResourcesR\x05value:\x028\x01\x1ae\x0a\x14RequiredS"
        b"chemasEntry\x12\x10\x0a\x03key\x18\x01 \x01(\x09R\x03key\x127\x0a\x05value\x18"
        b"\x02 \x01(\x0b2!.apiextensions.fn.proto.v1.SchemaR\x05value:\x028\x01"
        b'B\x08\x0a\x06_inputB\x0a\x0a\x08_context"\xe3\x03\x0a\x13RunFunction'
        b"Response\x12;\x0a\x04meta\x18\x01 \x01(\x0b2'.apiextensions.fn.proto.v1."
        b"ResponseMetaR\x04meta\x12:\x0a\x07desired\x18\x02 \x01(\x0b2 .apiextension"
        b"s.fn.proto.v1.StateR\x07desired\x12;\x0a\x07results\x18\x03 \x03(\x0b2!.a"
        b"piextensions.fn.proto.v1.ResultR\x07results\x126\x0a\x07cont"
        b"ext\x18\x04 \x01(\x0b2\x17.google.protobuf.StructH\x00R\x07context\x88\x01\x01"
        b"\x12K\x0a\x0crequirements\x18\x05 \x01(\x0b2'.apiextensions.fn.proto.v1.Requirements"
        b"R\x0crequirements\x12D\x0a\x0aconditions\x18\x06 \x03(\x0b2$.apiextensi"
        b"ons.fn.proto.v1.ConditionR\x0aconditions\x124\x0a\x06outpu"
        b"t\x18\x07 \x01(\x0b2\x17.google.protobuf.StructH\x01R\x06output\x88\x01\x01"
        b'B\x0a\x0a\x08_contextB\x09\x0a\x07_output"j\x0a\x0bRequestMeta\x12\x10\x0a\x03tag'
        b"\x18\x01 \x01(\x09R\x03tag\x12I\x0a\x0ccapabilities\x18\x02 \x03(\x0e2%.apiexten"
        b'sions.fn.proto.v1.CapabilityR\x0ccapabilities"Z\x0a\x0cResponseMeta'
        b"\x12\x10\x0a\x03tag\x18\x01 \x01(\x09R\x03tag\x120\x0a\x03ttl\x18\x02 \x01(\x0b"
        b"2\x19.google.protobuf.DurationH\x00R\x03ttl\x88\x01\x01B\x06\x0a\x04_"
        b'ttl"\xfc\x01\x0a\x05State\x12A\x0a\x09composite\x18\x01 \x01(\x0b2#.apiexte'
        b"nsions.fn.proto.v1.ResourceR\x09composite\x12M\x0a\x09resources\x18\x02 \x03"
        b"(\x0b2/.apiextensions.fn.proto.v1.State.ResourcesEntryR\x09r"
        b"esources\x1aa\x0a\x0eResourcesEntry\x12\x10\x0a\x03key\x18\x01 \x01(\x09R"
        b"\x03key\x129\x0a\x05value\x18\x02 \x01(\x0b2#.apiextensions.fn.proto.v1.Resou"
        b'rceR\x05value:\x028\x01"\xa8\x02\x0a\x08Resource\x123\x0a\x08resourc'
        b"e\x18\x01 \x01(\x0b2\x17.google.protobuf.StructR\x08resource\x12i\x0a\x12conne"
        b"ction_details\x18\x02 \x03(\x0b2:.apiextensions.fn.proto.v1.Resource.Connection"
        b"DetailsEntryR\x11connectionDetails\x126\x0a\x05ready\x18\x03 \x01(\x0e2 "
        b".apiextensions.fn.proto.v1.ReadyR\x05ready\x1aD\x0a\x16ConnectionDetailsEntry"
        b"\x12\x10\x0a\x03key\x18\x01 \x01(\x09R\x03key\x12\x14\x0a\x05valu"
        b'e\x18\x02 \x01(\x0cR\x05value:\x028\x01"F\x0a\x09Resources\x129\x0a\x05'
        b'items\x18\x01 \x03(\x0b2#.apiextensions.fn.proto.v1.ResourceR\x05items"T\x0a\x06Sch'
        b"ema\x12;\x0a\x0aopenapi_v3\x18\x01 \x01(\x0b2\x17.google.protobuf.Str"
        b'uctH\x00R\x09openapiV3\x88\x01\x01B\x0d\x0a\x0b_openapi_v3"m\x0a\x0bCreden'
        b"tials\x12T\x0a\x0fcredential_data\x18\x01 \x01(\x0b2).apiextensions.fn.proto.v1"
        b'.CredentialDataH\x00R\x0ecredentialDataB\x08\x0a\x06source"\x92\x01\x0a\x0eCredentia'
        b"lData\x12G\x0a\x04data\x18\x01 \x03(\x0b23.apiextensions.fn.proto.v1.Credent"
        b"ialData.DataEntryR\x04data\x1a7\x0a\x09DataEntry\x12\x10\x0a\x03"
        b"key\x18\x01 \x01(\x09R\x03key\x12\x14\x0a\x05value\x18\x02 \x01(\x0cR"
        b'\x05value:\x028\x01"\xe0\x04\x0a\x0cRequirements\x12h\x0a\x0fextra_re'
        b"sources\x18\x01 \x03(\x0b2;.apiextensions.fn.proto.v1.Requirements.ExtraResources"
        b"EntryB\x02\x18\x01R\x0eextraResources\x12T\x0a\x09resources\x18\x02 \x03(\x0b26.api"
        b"extensions.fn.proto.v1.Requirements.ResourcesEntryR\x09resources\x12N\x0a\x07"
        b"schemas\x18\x03 \x03(\x0b24.apiextensions.fn.proto.v1.Requirements.SchemasE"
        b"ntryR\x07schemas\x1an\x0a\x13ExtraResourcesEntry\x12\x10\x0a\x03key\x18\x01"
        b" \x01(\x09R\x03key\x12A\x0a\x05value\x18\x02 \x01(\x0b2+.apiextensions.fn.p"
        b"roto.v1.ResourceSelectorR\x05value:\x028\x01\x1ai\x0a\x0eReso"
        b"urcesEntry\x12\x10\x0a\x03key\x18\x01 \x01(\x09R\x03key\x12A\x0a"
        b"\x05value\x18\x02 \x01(\x0b2+.apiextensions.fn.proto.v1.ResourceSelecto"
        b"rR\x05value:\x028\x01\x1ae\x0a\x0cSchemasEntry\x12\x10\x0a\x03key\x18\x01 \x01("
        b"\x09R\x03key\x12?\x0a\x05value\x18\x02 \x01(\x0b2).apiextensions.fn.proto.v1.Sche"
        b'maSelectorR\x05value:\x028\x01"\xef\x01\x0a\x10ResourceSelector\x12\x1f\x0a\x0bapi_v'
        b"ersion\x18\x01 \x01(\x09R\x0aapiVersion\x12\x12\x0a\x04kind\x18\x02 \x01"
        b"(\x09R\x04kind\x12\x1f\x0a\x0amatch_name\x18\x03 \x01(\x09H\x00R\x09matc"
        b"hName\x12K\x0a\x0cmatch_labels\x18\x04 \x01(\x0b2&.apiextensions.fn.proto.v1.MatchLa"
        b"belsH\x00R\x0bmatchLabels\x12!\x0a\x09namespace\x18\x05 \x01(\x09H\x01R\x09nam"
        b'espace\x88\x01\x01B\x07\x0a\x05matchB\x0c\x0a\x0a_namespace"\x94\x01\x0a\x0bMatchLa'
        b"bels\x12J\x0a\x06labels\x18\x01 \x03(\x0b22.apiextensions.fn.proto.v1.MatchLab"
        b"els.LabelsEntryR\x06labels\x1a9\x0a\x0bLabelsEntry\x12\x10\x0a"
        b"\x03key\x18\x01 \x01(\x09R\x03key\x12\x14\x0a\x05value\x18\x02 \x01(\x09"
        b'R\x05value:\x028\x01"E\x0a\x0eSchemaSelector\x12\x1f\x0a\x0bapi_v'
        b"ersion\x18\x01 \x01(\x09R\x0aapiVersion\x12\x12\x0a\x04kind\x18\x02 \x01("
        b'\x09R\x04kind"\xd6\x01\x0a\x06Result\x12?\x0a\x08severity\x18\x01 \x01(\x0e'
        b"2#.apiextensions.fn.proto.v1.SeverityR\x08severity"
        b"\x12\x18\x0a\x07message\x18\x02 \x01(\x09R\x07message\x12\x1b\x0a\x06rea"
        b"son\x18\x03 \x01(\x09H\x00R\x06reason\x88\x01\x01\x12>\x0a\x06target"
        b"\x18\x04 \x01(\x0e2!.apiextensions.fn.proto.v1.TargetH"
        b"\x01R\x06target\x88\x01\x01B\x09\x0a\x07_reasonB\x09\x0a\x07_ta"
        b'rget"\xe8\x01\x0a\x09Condition\x12\x12\x0a\x04type\x18\x01 \x01(\x09R\x04type\x12'
        b"9\x0a\x06status\x18\x02 \x01(\x0e2!.apiextensions.fn.proto.v1.StatusR"
        b"\x06status\x12\x16\x0a\x06reason\x18\x03 \x01(\x09R\x06reason\x12\x1d\x0a\x07m"
        b"essage\x18\x04 \x01(\x09H\x00R\x07message\x88\x01\x01\x12>\x0a\x06targ"
        b"et\x18\x05 \x01(\x0e2!.apiextensions.fn.proto.v1.Target"
        b"H\x01R\x06target\x88\x01\x01B\x0a\x0a\x08_messageB\x09\x0a\x07_t"
        b"arget*\xc0\x01\x0a\x0aCapability\x12\x1a\x0a\x16CAPABILITY_UNSPE"
        b"CIFIED\x10\x00\x12\x1b\x0a\x17CAPABILITY_CAPABILITIES\x10\x01\x12!\x0a\x1dCAPABILIT"
        b"Y_REQUIRED_RESOURCES\x10\x02\x12\x1a\x0a\x16CAPABILITY_CREDENTIAL"
        b"S\x10\x03\x12\x19\x0a\x15CAPABILITY_CONDITIONS\x10\x04\x12\x1f\x0a\x1bCAPABILIT"
        b"Y_REQUIRED_SCHEMAS\x10\x05*?\x0a\x05Ready\x12\x15\x0a\x11READY_U"
        b"NSPECIFIED\x10\x00\x12\x0e\x0a\x0aREADY_TRUE\x10\x01\x12\x0f\x0a\x0bREAD"
        b"Y_FALSE\x10\x02*c\x0a\x08Severity\x12\x18\x0a\x14SEVERITY_UNSPECIFIED\x10"
        b"\x00\x12\x12\x0a\x0eSEVERITY_FATAL\x10\x01\x12\x14\x0a\x10SEVERITY_WARNING\x10"
        b"\x02\x12\x13\x0a\x0fSEVERITY_NORMAL\x10\x03*V\x0a\x06Target\x12\x16\x0a\x12T"
        b"ARGET_UNSPECIFIED\x10\x00\x12\x14\x0a\x10TARGET_COMPOSITE\x10\x01\x12\x1e\x0a\x1a"
        b"TARGET_COMPOSITE_AND_CLAIM\x10\x02*\x7f\x0a\x06Status\x12 \x0a\x1cSTATUS_COND"
        b"ITION_UNSPECIFIED\x10\x00\x12\x1c\x0a\x18STATUS_CONDITION_UNK"
        b"NOWN\x10\x01\x12\x19\x0a\x15STATUS_CONDITION_TRUE\x10\x02\x12\x1a\x0a\x16STATUS_COND"
        b"ITION_FALSE\x10\x032\x87\x01\x0a\x15FunctionRunnerService\x12n\x0a\x0bRunFun"
        b"ction\x12-.apiextensions.fn.proto.v1.RunFunctionRequest\x1a..apiext"
        b'ensions.fn.proto.v1.RunFunctionResponse"\x00b\x06proto3'
    ),
    "run_function_v1beta1.proto": (
        b"\x0a\x1arun_function_v1beta1.proto\x12\x1eapiextensions.fn.proto."
        b'v1beta1\x1a\x1egoogle/protobuf/duration.proto\x1a\x1cgoogle/protobuf/struct.proto"'
        b"\xdd\x09\x0a\x12RunFunctionRequest\x12?\x0a\x04meta\x18\x01 \x01(\x0b2+.apiextension"
        b"s.fn.proto.v1beta1.RequestMetaR\x04meta\x12A\x0a\x08observed\x18\x02 "
        b"\x01(\x0b2%.apiextensions.fn.proto.v1beta1.StateR\x08observe"
        b"d\x12?\x0a\x07desired\x18\x03 \x01(\x0b2%.apiextensions.fn.proto.v1beta"
        b"1.StateR\x07desired\x122\x0a\x05input\x18\x04 \x01(\x0b2\x17.google.protobuf"
        b".StructH\x00R\x05input\x88\x01\x01\x126\x0a\x07context\x18\x05 \x01(\x0b"
        b"2\x17.google.protobuf.StructH\x01R\x07context\x88\x01\x01\x12s\x0a\x0fextra"
        b"_resources\x18\x06 \x03(\x0b2F.apiextensions.fn.proto.v1beta1.RunFunctionRequ"
        b"est.ExtraResourcesEntryB\x02\x18\x01R\x0eextraResources\x12e\x0a\x0b"
        b"credentials\x18\x07 \x03(\x0b2C.apiextensions.fn.proto.v1beta1.RunFunctionR"
        b"equest.CredentialsEntryR\x0bcredentials\x12x\x0a\x12required_resources\x18\x08 \x03("
        b"\x0b2I.apiextensions.fn.proto.v1beta1.RunFunctionRequest.Required"
        b"ResourcesEntryR\x11requiredResources\x12r\x0a\x10required_schemas\x18\x09 \x03(\x0b2"
        b"G.apiextensions.fn.proto.v1beta1.RunFunctionRequest.RequiredSchemasEntryR\x0frequire"
        b"dSchemas\x1al\x0a\x13ExtraResourcesEntry\x12\x10\x0a\x03key\x18\x01 \x01("
        b"\x09R\x03key\x12?\x0a\x05value\x18\x02 \x01(\x0b2).apiextensions.fn.proto.v1beta1.Res"
        b"ourcesR\x05value:\x028\x01\x1ak\x0a\x10CredentialsEntry\x12\x10\x0a\x03k"
        b"ey\x18\x01 \x01(\x09R\x03key\x12A\x0a\x05value\x18\x02 \x01(\x0b2+.apiextensio"
        b"ns.fn.proto.v1beta1.CredentialsR\x05value:\x028\x01\x1ao\x0a\x16RequiredRes"
        b"ourcesEntry\x12\x10\x0a\x03key\x18\x01 \x01(\x09R\x03key\x12?"
        b"\x0a\x05value\x18\x02 \x01(\x0b2).apiextensions.fn.proto.v1beta1.Resource"
        b"sR\x05value:\x028\x01\x1aj\x0a\x14RequiredSchemasEntry\x12\x10\x0a\x03"
        b"key\x18\x01 \x01(\x09R\x03key\x12<\x0a\x05value\x18\x02 \x01(\x0b2&.apiexten"
        b"sions.fn.proto.v1beta1.SchemaR\x05value:\x028\x01B\x08\x0a\x06_inputB\x0a\x0a\x08"
        b'_context"\xfc\x03\x0a\x13RunFunctionResponse\x12@\x0a\x04met'
        b"a\x18\x01 \x01(\x0b2,.apiextensions.fn.proto.v1beta1.ResponseMet"
        b"aR\x04meta\x12?\x0a\x07desired\x18\x02 \x01(\x0b2%.apiextensions.fn.proto.v"
        b"1beta1.StateR\x07desired\x12@\x0a\x07results\x18\x03 \x03(\x0b2&.apiextensi"
        b"ons.fn.proto.v1beta1.ResultR\x07results\x126\x0a\x07context\x18\x04 "
        b"\x01(\x0b2\x17.google.protobuf.StructH\x00R\x07context\x88\x01\x01\x12P\x0a\x0creq"
        b"uirements\x18\x05 \x01(\x0b2,.apiextensions.fn.proto.v1beta1.RequirementsR\x0cre"
        b"quirements\x12I\x0a\x0aconditions\x18\x06 \x03(\x0b2).apiextensions.f"
        b"n.proto.v1beta1.ConditionR\x0aconditions\x124\x0a\x06output"
        b"\x18\x07 \x01(\x0b2\x17.google.protobuf.StructH\x01R\x06output\x88\x01\x01B\x0a\x0a"
        b'\x08_contextB\x09\x0a\x07_output"o\x0a\x0bRequestMet'
        b"a\x12\x10\x0a\x03tag\x18\x01 \x01(\x09R\x03tag\x12N\x0a\x0ccapabiliti"
        b"es\x18\x02 \x03(\x0e2*.apiextensions.fn.proto.v1beta1.CapabilityR\x0ccapabi"
        b'lities"Z\x0a\x0cResponseMeta\x12\x10\x0a\x03tag\x18\x01 \x01'
        b"(\x09R\x03tag\x120\x0a\x03ttl\x18\x02 \x01(\x0b2\x19.google.protobuf.Durat"
        b'ionH\x00R\x03ttl\x88\x01\x01B\x06\x0a\x04_ttl"\x8b\x02\x0a\x05State\x12'
        b"F\x0a\x09composite\x18\x01 \x01(\x0b2(.apiextensions.fn.proto.v1beta1.Resour"
        b"ceR\x09composite\x12R\x0a\x09resources\x18\x02 \x03(\x0b24.apiextensions.fn.proto"
        b".v1beta1.State.ResourcesEntryR\x09resources\x1af\x0a\x0eResourcesEnt"
        b"ry\x12\x10\x0a\x03key\x18\x01 \x01(\x09R\x03key\x12>\x0a\x05value\x18"
        b"\x02 \x01(\x0b2(.apiextensions.fn.proto.v1beta1.ResourceR\x05value"
        b':\x028\x01"\xb2\x02\x0a\x08Resource\x123\x0a\x08resource\x18\x01 \x01(\x0b2\x17.go'
        b"ogle.protobuf.StructR\x08resource\x12n\x0a\x12connection_details"
        b"\x18\x02 \x03(\x0b2?.apiextensions.fn.proto.v1beta1.Resource.ConnectionDetailsEnt"
        b"ryR\x11connectionDetails\x12;\x0a\x05ready\x18\x03 \x01(\x0e2%.apiextensio"
        b"ns.fn.proto.v1beta1.ReadyR\x05ready\x1aD\x0a\x16ConnectionDet"
        b"ailsEntry\x12\x10\x0a\x03key\x18\x01 \x01(\x09R\x03key\x12\x14\x0a\x05value"
        b'\x18\x02 \x01(\x0cR\x05value:\x028\x01"K\x0a\x09Resources\x12>\x0a\x05it'
        b'ems\x18\x01 \x03(\x0b2(.apiextensions.fn.proto.v1beta1.ResourceR\x05items"T\x0a\x06S'
        b"chema\x12;\x0a\x0aopenapi_v3\x18\x01 \x01(\x0b2\x17.google.protobuf.St"
        b'ructH\x00R\x09openapiV3\x88\x01\x01B\x0d\x0a\x0b_openapi_v3"r\x0a\x0bCreden'
        b"tials\x12Y\x0a\x0fcredential_data\x18\x01 \x01(\x0b2..apiextensions.fn.proto.v1be"
        b"ta1.CredentialDataH\x00R\x0ecredentialDataB\x08\x0a\x06sou"
        b'rce"\x97\x01\x0a\x0eCredentialData\x12L\x0a\x04data\x18\x01 \x03(\x0b28.api'
        b"extensions.fn.proto.v1beta1.CredentialData.DataEntryR\x04dat"
        b"a\x1a7\x0a\x09DataEntry\x12\x10\x0a\x03key\x18\x01 \x01(\x09R\x03k"
        b'ey\x12\x14\x0a\x05value\x18\x02 \x01(\x0cR\x05value:\x028\x01"\xfe'
        b"\x04\x0a\x0cRequirements\x12m\x0a\x0fextra_resources\x18\x01 \x03(\x0b2@.apiextensio"
        b"ns.fn.proto.v1beta1.Requirements.ExtraResourcesEntryB\x02\x18\x01R\x0eextraResourc"
        b"es\x12Y\x0a\x09resources\x18\x02 \x03(\x0b2;.apiextensions.fn.proto.v1be"
        b"ta1.Requirements.ResourcesEntryR\x09resources\x12S\x0a\x07sch"
        b"emas\x18\x03 \x03(\x0b29.apiextensions.fn.proto.v1beta1.Requirements.SchemasE"
        b"ntryR\x07schemas\x1as\x0a\x13ExtraResourcesEntry\x12\x10\x0a\x03key\x18\x01 \x01"
        b"(\x09R\x03key\x12F\x0a\x05value\x18\x02 \x01(\x0b20.apiextensions.fn.prot"
        b"o.v1beta1.ResourceSelectorR\x05value:\x028\x01\x1an\x0a\x0eReso"
        b"urcesEntry\x12\x10\x0a\x03key\x18\x01 \x01(\x09R\x03key\x12F\x0a\x05"
        b"value\x18\x02 \x01(\x0b20.apiextensions.fn.proto.v1beta1.ResourceSele"
        b"ctorR\x05value:\x028\x01\x1aj\x0a\x0cSchemasEntry\x12\x10\x0a\x03key\x18\x01 \x01"
        b"(\x09R\x03key\x12D\x0a\x05value\x18\x02 \x01(\x0b2..apiextensions.fn.proto.v1beta"
        b'1.SchemaSelectorR\x05value:\x028\x01"\xf4\x01\x0a\x10Resourc'
        b"eSelector\x12\x1f\x0a\x0bapi_version\x18\x01 \x01(\x09R\x0aapiVer"
        b"sion\x12\x12\x0a\x04kind\x18\x02 \x01(\x09R\x04kind\x12\x1f\x0a\x0amatch_nam"
        b"e\x18\x03 \x01(\x09H\x00R\x09matchName\x12P\x0a\x0cmatch_labels"
        b"\x18\x04 \x01(\x0b2+.apiextensions.fn.proto.v1beta1.MatchLabelsH\x00R\x0bmatchLabel"
        b"s\x12!\x0a\x09namespace\x18\x05 \x01(\x09H\x01R\x09namespace\x88"
        b'\x01\x01B\x07\x0a\x05matchB\x0c\x0a\x0a_namespace"\x99\x01\x0a\x0bMat'
        b"chLabels\x12O\x0a\x06labels\x18\x01 \x03(\x0b27.apiextensions.fn.proto.v1beta1."
        b"MatchLabels.LabelsEntryR\x06labels\x1a9\x0a\x0bLabelsE"
        b"ntry\x12\x10\x0a\x03key\x18\x01 \x01(\x09R\x03key\x12\x14\x0a\x05valu"
        b'e\x18\x02 \x01(\x09R\x05value:\x028\x01"E\x0a\x0eSchemaSelector\x12\x1f\x0a\x0b'
        b"api_version\x18\x01 \x01(\x09R\x0aapiVersion\x12\x12\x0a\x04kind\x18"
        b'\x02 \x01(\x09R\x04kind"\xe0\x01\x0a\x06Result\x12D\x0a\x08severity\x18\x01 '
        b"\x01(\x0e2(.apiextensions.fn.proto.v1beta1.SeverityR\x08s"
        b"everity\x12\x18\x0a\x07message\x18\x02 \x01(\x09R\x07message\x12\x1b"
        b"\x0a\x06reason\x18\x03 \x01(\x09H\x00R\x06reason\x88\x01\x01\x12C\x0a\x06ta"
        b"rget\x18\x04 \x01(\x0e2&.apiextensions.fn.proto.v1beta1.TargetH\x01R\x06targ"
        b'et\x88\x01\x01B\x09\x0a\x07_reasonB\x09\x0a\x07_target"\xf2\x01\x0a\x09Condition'
        b"\x12\x12\x0a\x04type\x18\x01 \x01(\x09R\x04type\x12>\x0a\x06status"
        b"\x18\x02 \x01(\x0e2&.apiextensions.fn.proto.v1beta1.StatusR\x06sta"
        b"tus\x12\x16\x0a\x06reason\x18\x03 \x01(\x09R\x06reason\x12\x1d\x0a\x07messa"
        b"ge\x18\x04 \x01(\x09H\x00R\x07message\x88\x01\x01\x12C\x0a\x06target\x18\x05 "
        b"\x01(\x0e2&.apiextensions.fn.proto.v1beta1.TargetH\x01"
        b"R\x06target\x88\x01\x01B\x0a\x0a\x08_messageB\x09\x0a\x07_target*\xc0\x01\x0a\x0aCap"
        b"ability\x12\x1a\x0a\x16CAPABILITY_UNSPECIFIED\x10\x00\x12\x1b\x0a\x17CAPABILITY_CAPA"
        b"BILITIES\x10\x01\x12!\x0a\x1dCAPABILITY_REQUIRED_RESOURCES\x10\x02\x12\x1a\x0a\x16"
        b"CAPABILITY_CREDENTIALS\x10\x03\x12\x19\x0a\x15CAPABILITY_CONDIT"
        b"IONS\x10\x04\x12\x1f\x0a\x1bCAPABILITY_REQUIRED_SCHEMAS\x10\x05*?\x0a"
        b"\x05Ready\x12\x15\x0a\x11READY_UNSPECIFIED\x10\x00\x12\x0e\x0a\x0aREADY_"
        b"TRUE\x10\x01\x12\x0f\x0a\x0bREADY_FALSE\x10\x02*c\x0a\x08Severity\x12"
        b"\x18\x0a\x14SEVERITY_UNSPECIFIED\x10\x00\x12\x12\x0a\x0eSEVERITY_FATAL\x10\x01"
        b"\x12\x14\x0a\x10SEVERITY_WARNING\x10\x02\x12\x13\x0a\x0fSEVERITY_NORMA"
        b"L\x10\x03*V\x0a\x06Target\x12\x16\x0a\x12TARGET_UNSPECIFIED\x10"
        b"\x00\x12\x14\x0a\x10TARGET_COMPOSITE\x10\x01\x12\x1e\x0a\x1aTARGET_COMPOSITE_A"
        b"ND_CLAIM\x10\x02*\x7f\x0a\x06Status\x12 \x0a\x1cSTATUS_CONDITION_UNSPECIFIE"
        b"D\x10\x00\x12\x1c\x0a\x18STATUS_CONDITION_UNKNOWN\x10\x01\x12\x19\x0a\x15STATU"
        b"S_CONDITION_TRUE\x10\x02\x12\x1a\x0a\x16STATUS_CONDITION_FALSE\x10\x032"
        b"\x91\x01\x0a\x15FunctionRunnerService\x12x\x0a\x0bRunFunction\x122.apiex"
        b"tensions.fn.proto.v1beta1.RunFunctionRequest\x1a3.apiextensions.fn.proto.v1beta1.Ru"
        b'nFunctionResponse"\x00b\x06proto3'
    ),
}
